"""compare_pytorch.py record: adds PyTorch's times to a record of kernel_bench, which must be of the
same card.

    kernel_bench all --json record.json
    python3 examples/kernel_bench/compare_pytorch.py record record.json --out record.json

Times the same operation at the same shape in the same way: the median of as many runs, each after a
buffer of twice the L2 cache was overwritten, with the events round the operation alone. The buffer
is overwritten several times, so that the GPU is still at it when the host has launched the
operation: what PyTorch takes on the host does not count. torch_operations.py says what is called;
where it may gain from torch.compile, it is timed both as it is and compiled.

"llmc us" is the time of the default variant and block size, "PyTorch us" that of PyTorch's fastest
way, and the ratio is llmc / PyTorch: below 1 llmc is faster. ieee and tf32x3 are compared with
PyTorch's matmul precision 'highest', tf32 with 'high'.
"""

import gc
import pathlib
import sys

import torch

import record as records
import torch_operations
from torch_bench import MATMUL_PRECISIONS, Stopwatch

OVERWRITES = 8  # of the flushed buffer: about 0.3 ms


def matmul_precisions(operation):
    """The matmul precisions to compare the operation's with; [None] if it has no precisions."""
    return list(dict.fromkeys(map(MATMUL_PRECISIONS.get, records.precisions_of(operation))))


def compiled(function):
    torch.compiler.reset()  # each operation is compiled for itself
    return torch.compile(lambda *arguments: function(*arguments), fullgraph=True, dynamic=False)


def time_way(way, mode, stopwatch):
    function = way.function if mode == "eager" else compiled(way.function)
    try:
        us, spread = stopwatch.time(lambda: function(*way.arguments))
    except Exception as error:  # the other ways are still of use
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    return {"us": us, "spread": spread}


def measure(operation, stopwatch, skip_compile):
    """A list for the record: what each way took, for each matmul precision."""
    found = []
    ways = torch_operations.ways_of(operation["operation"], operation["shape"])
    for precision in matmul_precisions(operation):
        torch.set_float32_matmul_precision(precision or "highest")
        for way in ways:
            for mode in ("eager", "compile"):
                if mode == "compile" and (skip_compile or not way.compiles):
                    continue
                one = {"way": way.name, "mode": mode, **time_way(way, mode, stopwatch)}
                if precision:
                    one["matmul_precision"] = precision
                if way.is_part:
                    one["part"] = True
                found.append(one)
    return found


# ---- what is printed ----

def way_text(operation, fastest):
    if fastest:
        return f"{fastest['way']}, {fastest['mode']}"
    return "failed" if operation["pytorch"] else "no counterpart"


def rows_of(operation):
    for precision in records.precisions_of(operation):
        theirs = records.fastest(records.pytorch_of(operation, MATMUL_PRECISIONS.get(precision)))
        yield records.comparison(operation, precision, theirs, way_text(operation, theirs))


def print_errors(operation):
    for one in operation["pytorch"]:
        if "error" in one:
            print(f"{operation['operation']}, {one['way']}, {one['mode']}: {one['error']}",
                  file=sys.stderr, flush=True)


# ---- the program ----

def add_options(parser):
    parser.add_argument("record", type=pathlib.Path, help="what `kernel_bench all --json` wrote")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE",
                        help="write the record with PyTorch's times; may be the same file")
    parser.add_argument("--only", nargs="+", metavar="OPERATION", help="only these operations")
    parser.add_argument("--skip-compile", action="store_true", help="do not time torch.compile")


def compare(options):
    record = records.read(options.record)
    records.require_same_card(record, torch.cuda.get_device_name())
    chosen = [one for one in record["operations"]
              if not options.only or one["operation"] in options.only]
    if not chosen:
        raise SystemExit(f"the record has none of {', '.join(options.only)}")
    record["pytorch"] = {"version": torch.__version__, "cuda": torch.version.cuda}
    stopwatch = Stopwatch(record["repeats"], 2 * record["l2_bytes"], OVERWRITES)
    print(f"median of {record['repeats']} runs with a cold L2 cache")
    records.print_row(["operation", "", "llmc us", "PyTorch us", "ratio", "PyTorch's fastest way"])
    with torch.no_grad():
        for operation in chosen:
            operation["pytorch"] = measure(operation, stopwatch, options.skip_compile)
            gc.collect()
            torch.cuda.empty_cache()
            for row in rows_of(operation):
                records.print_row(row)
            print_errors(operation)
            if options.out:
                records.write(options.out, record)
