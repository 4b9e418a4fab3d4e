#!/usr/bin/env python3
"""Tests of examples/kernel_bench/write_tables.py."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "kernel_bench"
sys.dont_write_bytecode = True
sys.path.append(str(FOLDER))
import write_tables  # noqa: E402


def entry(variant, block_size, us, precision=None, default=True, fastest=False):
    one = {"variant": variant, "block_size": block_size, "default_block_size": default,
           "result": "right", "error": 0.1, "us": us, "spread": 0.01, "rate": 1, "share": 1,
           "fastest": fastest}
    return one | ({"precision": precision} if precision else {})


def unsupported(variant, precision):
    return {"variant": variant, "block_size": 128, "default_block_size": True,
            "result": "unsupported", "error": 0, "reason": "needs another card",
            "precision": precision}


def make_record():
    rows = {"operation": "gelu_forward", "shape": {"channels": 3072, "rows": 8192},
            "bytes": 200_000_000, "flops": 0, "unit": "GB/s", "ceilings": {"copy": 2500.0},
            "entries": [entry("automatic", 256, 84.0),
                        entry("naive", 128, 200.0), entry("naive", 512, 160.0, default=False),
                        entry("packs", 256, 84.04, fastest=True)]}
    product = {"operation": "matmul_forward", "shape": {"rows": 64}, "bytes": 1000,
               "flops": 40e9, "unit": "TF/s", "ceilings": {"ieee": 50.0, "tf32": 400.0},
               "entries": [entry("automatic", 0, 1000.0, "ieee"),
                           entry("automatic", 0, 200.0, "tf32"),
                           unsupported("tensor_core", "ieee"),
                           entry("tensor_core", 0, 200.0, "tf32", fastest=True)],
               "pytorch": [{"way": "addmm", "mode": "eager", "matmul_precision": "high",
                            "us": 250.0, "spread": 0.01},
                           {"way": "addmm", "mode": "compile", "matmul_precision": "high",
                            "error": "no"}]}
    return {"device": "Card", "cuda_runtime": "13.0", "repeats": 21, "l2_bytes": 1,
            "pytorch": {"version": "2.11"}, "operations": [rows, product]}


def place(name, content=""):
    return f"<!-- kernel_bench: {name} -->\n{content}<!-- end -->\n"


class Tables(unittest.TestCase):
    def test_each_variant_at_its_fastest_block_size(self):
        record = make_record()
        self.assertEqual(write_tables.table(record, record["operations"][0], "abc"), """\
Card, CUDA 13.0, commit abc; channels 3072, rows 8192: \
`kernel_bench run gelu_forward --channels 3072 --rows 8192`

| variant | block | us | GB/s | share |
| --- | --- | --- | --- | --- |
| **automatic** (the default) | 256 | **84.0** | 2381 | 95% |
| naive | 512 (default 128) | 160.0 | 1250 | 50% |
| packs | 256 | 84.0, fastest | 2380 | 95% |
""")

    def test_each_precision_and_pytorch(self):
        record = make_record()
        self.assertEqual(write_tables.table(record, record["operations"][1]), """\
Card, CUDA 13.0, PyTorch 2.11; rows 64: `kernel_bench run matmul_forward --rows 64`

| variant | precision | block | us | TF/s | share |
| --- | --- | --- | --- | --- | --- |
| **automatic** (the default) | ieee | 0 | **1000.0** | 40.0 | 80% |
| **automatic** (the default) | tf32 | 0 | **200.0** | 200.0 | 50% |
| tensor_core | ieee | - | unsupported | - | - |
| tensor_core | tf32 | 0 | 200.0, fastest | 200.0 | 50% |
| PyTorch eager: addmm | high |  | 250.0 | 160.0 | 40% |
""")

    def test_wrong_results_are_refused(self):
        record = make_record()
        record["operations"][0]["entries"][1] |= {"result": "wrong", "reason": "off"}
        with self.assertRaises(SystemExit):
            write_tables.table(record, record["operations"][0])


class Pages(unittest.TestCase):
    def test_all_else_stays(self):
        page = ("# GELU\n\n" + place("gelu_forward", "old\n") + "\nbetween\n\n" +
                place("unknown", "kept\n") + "end\n")
        new = write_tables.filled(page, make_record())
        self.assertIn("| packs |", new)
        self.assertNotIn("old", new)
        self.assertTrue(new.startswith("# GELU\n\n<!-- kernel_bench: gelu_forward -->\nCard"))
        self.assertTrue(new.endswith("<!-- end -->\n\nbetween\n\n" + place("unknown", "kept\n") +
                                     "end\n"))
        self.assertEqual(write_tables.filled(new, make_record()), new)

    def test_places(self):
        self.assertEqual(write_tables.places_in(place("a") + place("b"), "page"), ["a", "b"])
        for page in ("<!-- kernel_bench: a -->\n", "<!-- kernel_bench: a -->\n" + place("b")):
            with self.assertRaises(SystemExit):
                write_tables.places_in(page, "page")


class Program(unittest.TestCase):
    def run_program(self, page, *arguments):
        """The exit status, and what the page is afterwards."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "page.md").write_text(page)
            (folder / "record.json").write_text(json.dumps(make_record()))
            status = subprocess.run(
                [sys.executable, FOLDER / "write_tables.py", folder / "record.json",
                 "--pages", folder, *arguments], stdout=subprocess.DEVNULL, check=False).returncode
            return status, (folder / "page.md").read_text()

    def test_check(self):
        half = place("gelu_forward")
        self.assertEqual(self.run_program(half, "--check"), (1, half))
        both = half + place("matmul_forward")
        self.assertEqual(self.run_program(both, "--check"), (0, both))

    def test_writes(self):
        status, page = self.run_program(place("gelu_forward"))
        self.assertEqual(status, 0)
        self.assertIn("| packs |", page)


if __name__ == "__main__":
    unittest.main()
