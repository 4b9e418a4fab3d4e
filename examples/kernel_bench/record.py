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
    """What a caller gets who names no variant and no block size."""
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
    """The one of fewest microseconds among those that have any, or None."""
    timed = [one for one in measurements if "us" in one]
    return min(timed, key=lambda one: one["us"], default=None)


def pytorch_of(operation, matmul_precision=None):
    """PyTorch's measurements of the whole operation that compare_pytorch.py added."""
    return [one for one in operation.get("pytorch", [])
            if one.get("matmul_precision") == matmul_precision and not one.get("part")]
