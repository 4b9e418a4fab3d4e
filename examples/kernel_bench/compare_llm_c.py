#!/usr/bin/env python3
"""Adds the times of karpathy/llm.c to a record of kernel_bench of the same card.

    kernel_bench all --json record.json
    llm_c_bench --json llm_c.json
    python3 examples/kernel_bench/compare_llm_c.py record.json llm_c.json --out record.json

"llmc us" is the time of the default variant and block size, "llm.c us" that of llm.c's fastest way,
and the ratio is llmc / llm.c: below 1 llmc is faster. tf32x3, which llm.c has not, is compared with
its ieee.
"""

import argparse
import pathlib
import sys

import record as records

# llmc's precision: that of llm.c to compare it with, where it is another.
PRECISIONS = {"tf32x3": "ieee"}


def require_same_shape(record, peer):
    """llm_c_bench knows one shape only: kernel_bench's default."""
    for operation in record["operations"]:
        for name, extent in operation["shape"].items():
            if peer["shape"].get(name, extent) != extent:
                raise SystemExit(f"{operation['operation']}: llm.c was timed at {name} "
                                 f"{peer['shape'][name]}, got a record of {extent}")


def merge(record, peer):
    """Gives each operation that llm.c has its measurements, without those of wrong results."""
    records.require_same_card(record, peer["device"])
    require_same_shape(record, peer)
    record["llm_c"] = peer["llm_c"]
    for operation in record["operations"]:
        found = peer["operations"].get(operation["operation"], [])
        operation["llm_c"] = [one for one in found if one["right"]]
        for one in found:
            if not one["right"]:
                print(f"{operation['operation']}, {one['way']}: left out, since it differs from "
                      f"llmc by {one['difference']}", file=sys.stderr)


def rows_of(operation):
    for precision in records.precisions_of(operation):
        theirs = records.fastest(records.llm_c_of(operation, PRECISIONS.get(precision, precision)))
        yield records.comparison(operation, precision, theirs,
                                 theirs["way"] if theirs else "no counterpart")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=pathlib.Path, help="what `kernel_bench all --json` wrote")
    parser.add_argument("peer", type=pathlib.Path, help="what `llm_c_bench --json` wrote")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE",
                        help="write the record with llm.c's times; may be the same file")
    options = parser.parse_args()

    record, peer = records.read(options.record), records.read(options.peer)
    merge(record, peer)
    print(f"{record['device']}, medians of {record['repeats']} (llmc) and {peer['repeats']} "
          "(llm.c) runs with a cold L2 cache")
    records.print_row(["operation", "", "llmc us", "llm.c us", "ratio", "llm.c's fastest way"])
    for operation in record["operations"]:
        for row in rows_of(operation):
            records.print_row(row)
    if options.out:
        records.write(options.out, record)


if __name__ == "__main__":
    main()
