"""Reads what `kernel_bench all --json` writes, for the scripts beside this file."""

import json
import pathlib


def read(path):
    return json.loads(pathlib.Path(path).read_text())


def write(path, record):
    pathlib.Path(path).write_text(json.dumps(record, indent=2) + "\n")


def is_right(entry):
    return entry["result"] == "right"


def precisions_of(operation):
    """In the order of the record; [None] of an operation that takes none."""
    return list(dict.fromkeys(entry.get("precision") for entry in operation["entries"]))


def default_entry(operation, precision=None):
    """The entry that runs where no variant and no block size is named."""
    for entry in operation["entries"]:
        if entry["variant"] == "automatic" and entry.get("precision") == precision:
            return entry
    return None


def rate_of(operation, us):
    """GB/s or TF/s, as the operation's unit says."""
    if operation["flops"] > 0:
        return operation["flops"] / us / 1e6
    return operation["bytes"] / us / 1e3


def fastest(measurements):
    """The measurement of fewest microseconds among those that have a time, or None."""
    timed = [one for one in measurements if "us" in one]
    return min(timed, key=lambda one: one["us"], default=None)


def pytorch_of(operation, matmul_precision=None):
    """PyTorch's measurements of the whole operation that compare_pytorch.py added."""
    return [one for one in operation.get("pytorch", [])
            if one.get("matmul_precision") == matmul_precision and not one.get("part")]


# ---- beside another library's times ----

def require_same_card(record, device):
    if record["device"] != device:
        raise SystemExit(f"the record must be of the same card, {device}, "
                         f"got one of {record['device']}")


def default_us(operation, precision=None):
    entry = default_entry(operation, precision)
    return entry["us"] if entry and is_right(entry) else None


def comparison(operation, precision, theirs, way):
    """A row: llmc's default beside the other's measurement, or None, and what that one is."""
    ours = default_us(operation, precision)
    return [operation["operation"], precision or "",
            f"{ours:.2f}" if ours else "-",
            f"{theirs['us']:.2f}" if theirs else "-",
            f"{ours / theirs['us']:.3f}" if ours and theirs else "-",
            way]


def print_row(row):
    name, precision, *numbers, way = row
    print(f"{name:28} {precision:7} " + " ".join(f"{x:>10}" for x in numbers) + f"  {way}",
          flush=True)
