#!/usr/bin/env python3
"""Fills in the tables of docs/layers/*.md from a record of kernel_bench.

    kernel_bench all --json record.json
    python3 examples/kernel_bench/write_tables.py record.json

Between the lines `<!-- kernel_bench: NAME -->` and `<!-- end -->` of a page it writes the table of
the operation NAME, if the record has it, and leaves all else as it is. --check writes nothing and
exits with status 1 if no page has a place for an operation of the record.
"""

import argparse
import pathlib
import re

import record as records

PAGES = pathlib.Path(__file__).resolve().parents[2] / "docs" / "layers"
BEGIN = "<!-- kernel_bench: "
PLACE = re.compile(rf"^{BEGIN}(\w+) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
# PyTorch's matmul precision: the ceiling that is its own.
CEILINGS = {"highest": "ieee", "high": "tf32", None: "copy"}


# ---- one table ----

def introduction(record, operation, commit):
    """The line above the table: on what, at which shape, and how to repeat it."""
    shape = operation["shape"]
    extents = ", ".join(f"{name} {value}" for name, value in shape.items())
    command = " ".join(["kernel_bench run", operation["operation"],
                        *(f"--{name} {value}" for name, value in shape.items())])
    at = [record["device"], f"CUDA {record['cuda_runtime']}"]
    if commit:
        at.append(f"commit {commit}")
    if operation.get("pytorch"):
        at.append(f"PyTorch {record['pytorch']['version']}")
    return f"{', '.join(at)}; {extents}: `{command}`"


def header(operation, has_precision):
    columns = ["variant", *(["precision"] if has_precision else []), "block", "us",
               operation["unit"], "share"]
    return [columns, ["---"] * len(columns)]


def numbers(operation, us, ceiling):
    rate = records.rate_of(operation, us)
    share = f"{100 * rate / ceiling:.0f}%" if ceiling else "-"
    digits = 1 if operation["flops"] > 0 else 0
    return [f"{us:.1f}", f"{rate:.{digits}f}", share]


def block_text(best, entries):
    """The fastest block size, and the variant's own where that is another."""
    own = next((one["block_size"] for one in entries if one["default_block_size"]), None)
    if own in (None, best["block_size"]):
        return str(best["block_size"])
    return f"{best['block_size']} (default {own})"


def variant_row(operation, variant, precision, entries):
    """A variant in one precision at its fastest block size. The default is in bold type."""
    is_default = variant == "automatic"
    name = "**automatic** (the default)" if is_default else variant
    row = [name, *([precision] if precision else [])]
    best = records.fastest([one for one in entries if records.is_right(one)])
    if best is None:
        return [*row, "-", "unsupported", "-", "-"]
    us, *others = numbers(operation, best["us"],
                          operation["ceilings"].get(precision or CEILINGS[None]))
    if is_default:
        us = f"**{us}**"
    elif any(one["fastest"] for one in entries if records.is_right(one)):
        us = f"{us}, fastest"
    return [*row, block_text(best, entries), us, *others]


def variant_rows(operation):
    groups = {}
    for entry in operation["entries"]:
        groups.setdefault((entry["variant"], entry.get("precision")), []).append(entry)
    return [variant_row(operation, *key, entries) for key, entries in groups.items()]


def pytorch_rows(operation, has_precision):
    """One row for each way that was timed."""
    rows = []
    for one in operation.get("pytorch", []):
        if "us" not in one or one.get("part"):
            continue
        precision = one.get("matmul_precision")
        ceiling = operation["ceilings"].get(CEILINGS[precision])
        rows.append([f"PyTorch {one['mode']}: {one['way']}",
                     *([precision or ""] if has_precision else []), "",
                     *numbers(operation, one["us"], ceiling)])
    return rows


def table(record, operation, commit=None):
    """Markdown, with the line that introduces it."""
    wrong = [one for one in operation["entries"] if one["result"] == "wrong"]
    if wrong:
        raise SystemExit(f"{operation['operation']}: the record must be of right results, got "
                         f"{wrong[0]['variant']}: {wrong[0]['reason']}")
    has_precision = records.precisions_of(operation) != [None]
    rows = [*header(operation, has_precision), *variant_rows(operation),
            *pytorch_rows(operation, has_precision)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([introduction(record, operation, commit), "", *lines]) + "\n"


# ---- pages ----

def places_in(text, page):
    """The names of the operations that a page has places for."""
    places = list(PLACE.finditer(text))
    if len(places) != text.count(BEGIN) or any(BEGIN in place[2] for place in places):
        raise SystemExit(f"{page}: each line '{BEGIN}NAME -->' must be followed by a line "
                         "'<!-- end -->'")
    return [place[1] for place in places]


def filled(text, record, commit=None):
    """The page with the tables of all operations that the record has."""
    operations = {one["operation"]: one for one in record["operations"]}

    def fill(place):
        if place[1] not in operations:
            return place[0]
        content = table(record, operations[place[1]], commit)
        return f"{BEGIN}{place[1]} -->\n{content}<!-- end -->"

    return PLACE.sub(fill, text)


def missing(record, names):
    return [one["operation"] for one in record["operations"] if one["operation"] not in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=pathlib.Path,
                        help="what `kernel_bench all --json` or compare_pytorch.py wrote")
    parser.add_argument("--pages", type=pathlib.Path, default=PAGES, metavar="FOLDER",
                        help="[docs/layers]")
    parser.add_argument("--commit", help="named above each table")
    parser.add_argument("--check", action="store_true",
                        help="only say which operations have no place")
    options = parser.parse_args()

    record = records.read(options.record)
    pages = {page: page.read_text() for page in sorted(options.pages.glob("*.md"))}
    names = {name for page, text in pages.items() for name in places_in(text, page)}
    without = missing(record, names)
    for name in without:
        print(f"no page in {options.pages} has a place for {name}")
    if options.check:
        raise SystemExit(1 if without else 0)
    for page, text in pages.items():
        new = filled(text, record, options.commit)
        if new != text:
            page.write_text(new)
            print(f"wrote {page}")


if __name__ == "__main__":
    main()
