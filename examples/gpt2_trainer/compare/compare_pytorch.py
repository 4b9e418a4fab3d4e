#!/usr/bin/env python3
"""Times a training step of gpt2_train and of PyTorch on the same GPU in the same run.

    python3 examples/gpt2_trainer/compare/compare_pytorch.py \\
        --gpt2-train build/train/examples/gpt2_trainer/gpt2_train --case 4,1024 --case 16,1024

The work is GPT-2 from scratch on random tokens: forward, backward, clipping of the gradient to norm
1 and AdamW. gpt2_train is timed by `--benchmark`: its steps also copy their batch to the GPU and
bring the loss and the gradient norm back. PyTorch, with scaled_dot_product_attention and fused
AdamW, does neither; torch_step.py beside this file is what it runs. Each measurement is a process
of its own. gpt2_train is measured before and after PyTorch, and its steps are taken together.

Times are in ms. The spread is between the quartiles, as a share of the median. Memory is what
gpt2_train plans, and the most that PyTorch's allocator had in use (and had reserved), in GiB.
Ratios are gpt2_train / PyTorch: below 1 gpt2_train is faster, or needs less.
"""

import argparse
import json
import os
import pathlib
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile

# llmc's precision: the matmul precision of PyTorch to compare it with.
PRECISIONS = {"ieee": "highest", "tf32": "high", "tf32x3": "highest"}
MODES = ("eager", "compile", "reduce-overhead")
DEFAULT_CASES = [(4, 1024), (16, 1024), (4, 64)]


# ---- measurements ----

class Failure(Exception):
    """Why there is no measurement, in one line."""


def run(command, seconds, folder):
    """What the command prints. Afterwards it and all that it started have ended."""
    process = subprocess.Popen(list(map(str, command)), cwd=folder, start_new_session=True,
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failure(f"not done after {seconds} s") from None
    finally:
        stop_group(process)
    if process.returncode != 0:
        raise Failure(cause_of(errors) or f"exit status {process.returncode}")
    return out


def stop_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def cause_of(errors):
    if "out of memory" in errors.lower():
        return "out of memory"
    lines = errors.strip().splitlines()
    return lines[-1] if lines else ""


def measure_llmc(options, batch, sequence, precision, folder):
    result = folder / "llmc.json"
    extra = shlex.split(options.options)
    plans = [] if "--plans" in extra else ["--plans", folder / "plans.txt"]
    run([options.gpt2_train, "--init", f"d{options.depth}", "--backend", "cuda",
         "-b", batch, "-t", sequence, "--precision", precision, *plans,
         "--benchmark", options.steps, "--benchmark-json", result, *extra],
        options.time_limit, folder)
    found = json.loads(result.read_text())
    return {"milliseconds": found["milliseconds"]["all"],
            "memory_bytes": found["total_memory_bytes"], "details": found}


def measure_pytorch(options, batch, sequence, precision, mode, folder):
    script = pathlib.Path(__file__).resolve().with_name("torch_step.py")
    out = run([sys.executable, script, "--mode", mode, "--matmul-precision", precision,
               "--depth", options.depth, "-b", batch, "-t", sequence, "--steps", options.steps],
              options.time_limit, folder)
    found = json.loads(out.splitlines()[-1])
    return {"milliseconds": found["milliseconds"], "memory_bytes": found["max_memory_allocated"],
            "reserved_bytes": found["max_memory_reserved"], "details": found}


def attempt(measure, *arguments):
    try:
        return measure(*arguments)
    except Failure as failure:
        return {"error": str(failure)}


def together(first, second):
    """Both turns of a program as one measurement."""
    if "error" in first or "error" in second:
        return first if "error" in first else second
    return second | {"milliseconds": first["milliseconds"] + second["milliseconds"]}


def measure_case(options, batch, sequence, folder):
    """A list of measurements: for each matmul precision PyTorch between two turns of llmc."""
    found = []
    for matmul_precision in dict.fromkeys(map(PRECISIONS.get, options.precision)):
        ours = [p for p in options.precision if PRECISIONS[p] == matmul_precision]

        def turn():
            return [attempt(measure_llmc, options, batch, sequence, p, folder) for p in ours]

        before = turn()
        theirs = [attempt(measure_pytorch, options, batch, sequence, matmul_precision, mode, folder)
                  for mode in options.modes]
        after = turn()
        mine = [{"program": "llmc", "precision": p} | together(a, b)
                for p, a, b in zip(ours, before, after)]
        found += mine + [{"program": mode, "precision": matmul_precision} | result
                         for mode, result in zip(options.modes, theirs)]
    return [{"batch": batch, "sequence": sequence} | one for one in found]


# ---- what is printed ----

def summary(milliseconds):
    lower, median, upper = statistics.quantiles(milliseconds, n=4, method="inclusive")
    return {"median": median, "minimum": min(milliseconds), "lower_quartile": lower,
            "upper_quartile": upper}


def summarised(measurement):
    if "error" in measurement:
        return measurement
    return measurement | {"summary": summary(measurement["milliseconds"])}


def ratio_cells(ours, theirs):
    """Of times and of memory; empty where one of the two is missing."""
    if "error" in ours or "error" in theirs:
        return ["", ""]
    time = ours["summary"]["median"] / theirs["summary"]["median"]
    return [f"{time:.3f}", f"{ours['memory_bytes'] / theirs['memory_bytes']:.3f}"]


def memory_text(measurement):
    text = f"{measurement['memory_bytes'] / 2**30:.2f}"
    if "reserved_bytes" in measurement:
        text += f" ({measurement['reserved_bytes'] / 2**30:.2f})"
    return text


def measured_cells(measurement):
    if "error" in measurement:
        return [measurement["error"], "", "", ""]
    s = measurement["summary"]
    spread = (s["upper_quartile"] - s["lower_quartile"]) / s["median"]
    return [f"{s['median']:.2f}", f"{s['minimum']:.2f}", f"{100 * spread:.1f}%",
            memory_text(measurement)]


def rows_of(measurements):
    """For each precision of llmc its own row, then one for each mode of PyTorch."""
    for ours in measurements:
        if ours["program"] != "llmc":
            continue
        shape = f"{ours['batch']}, {ours['sequence']}"
        yield [shape, ours["precision"], "gpt2_train", *measured_cells(ours), "", ""]
        for theirs in measurements:
            if theirs["program"] != "llmc" and theirs["precision"] == PRECISIONS[ours["precision"]]:
                yield [shape, theirs["precision"], f"PyTorch {theirs['program']}",
                       *measured_cells(theirs), *ratio_cells(ours, theirs)]


def print_row(row):
    print("| " + " | ".join(row) + " |", flush=True)


def print_header():
    print_row(["B, T", "precision", "program", "median ms", "minimum", "spread",
               "GiB (reserved)", "time ratio", "memory ratio"])
    print_row(["---"] * 9)


def circumstances(measurements):
    """What the measurements say of the card and the versions."""
    found = {}
    for one in measurements:
        details = one.get("details", {})
        keys = ("machine",) if one["program"] == "llmc" else ("device", "torch", "cuda")
        found |= {key: details[key] for key in keys if key in details}
    return found


# ---- the program ----

def case(text):
    try:
        batch, sequence = map(int, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be B,T such as 4,1024, got {text}") from None
    return batch, sequence


def parse_options(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpt2-train", required=True, type=pathlib.Path, help="the program")
    parser.add_argument("--case", action="append", type=case, metavar="B,T",
                        help="sequences and their length, may be repeated [4,1024 16,1024 4,64]")
    parser.add_argument("--precision", nargs="+", default=list(PRECISIONS), choices=PRECISIONS,
                        help="of gpt2_train [all]")
    parser.add_argument("--skip", nargs="+", default=[], choices=MODES,
                        help="what PyTorch need not do")
    parser.add_argument("--steps", type=int, default=50, help="steps that are timed a turn [50]")
    parser.add_argument("--depth", type=int, default=12, help="layers of the model [12]")
    parser.add_argument("--options", default="", metavar='"..."',
                        help="more options of gpt2_train")
    parser.add_argument("--time-limit", type=float, default=300, metavar="SECONDS",
                        help="of each measurement [300]")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="write everything, with the times of all steps")
    options = parser.parse_args(arguments)
    if options.steps < 2:
        parser.error(f"--steps must be at least 2, got {options.steps}")
    options.gpt2_train = options.gpt2_train.resolve()
    options.modes = [mode for mode in MODES if mode not in options.skip]
    return options


def main():
    options = parse_options()
    measurements = []
    print_header()
    with tempfile.TemporaryDirectory() as folder:
        for batch, sequence in options.case or DEFAULT_CASES:
            new = [summarised(one) for one in
                   measure_case(options, batch, sequence, pathlib.Path(folder))]
            for row in rows_of(new):
                print_row(row)
            measurements += new
            if options.json:
                options.json.write_text(json.dumps(
                    {"circumstances": circumstances(measurements), "depth": options.depth,
                     "options": options.options, "measurements": measurements}) + "\n")
    print("\n" + ", ".join(f"{key} {value}" for key, value in circumstances(measurements).items()))
    if any("error" in one for one in measurements):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
