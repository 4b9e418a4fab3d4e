#!/usr/bin/env python3
"""Tests of examples/kernel_bench/compare_llm_c.py."""

import contextlib
import io
import pathlib
import sys
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "kernel_bench"
sys.dont_write_bytecode = True
sys.path.append(str(FOLDER))
import compare_llm_c  # noqa: E402


def make_record():
    entries = [{"variant": "automatic", "result": "right", "us": us, "precision": precision}
               for precision, us in (("ieee", 90.0), ("tf32", 50.0), ("tf32x3", 120.0))]
    gelu = {"variant": "automatic", "result": "right", "us": 5.0}
    return {"device": "Card",
            "operations": [{"operation": "matmul_forward", "shape": {"rows": 64, "channels": 8},
                            "entries": entries},
                           {"operation": "gelu_forward", "shape": {"rows": 64},
                            "entries": [gelu]}]}


def make_way(way, us, right=True, **others):
    return {"way": way, "us": us, "spread": 0.01, "difference": 1e-4, "right": right} | others


def make_peer():
    return {"device": "Card", "shape": {"rows": 64}, "llm_c": {"cuda": "13.0"},
            "operations": {"matmul_forward": [make_way("slow", 200.0, precision="ieee"),
                                              make_way("fast", 100.0, precision="ieee"),
                                              make_way("half", 10.0, precision="ieee", part=True),
                                              make_way("fast", 40.0, precision="tf32"),
                                              make_way("off", 1.0, False, precision="tf32")]}}


class Comparison(unittest.TestCase):
    def test_each_precision_beside_the_fastest_right_way(self):
        record = make_record()
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            compare_llm_c.merge(record, make_peer())
        self.assertIn("matmul_forward, off: left out", errors.getvalue())
        self.assertEqual(record["llm_c"], {"cuda": "13.0"})
        product, gelu = record["operations"]
        self.assertEqual(list(compare_llm_c.rows_of(product)),
                         [["matmul_forward", "ieee", "90.00", "100.00", "0.900", "fast"],
                          ["matmul_forward", "tf32", "50.00", "40.00", "1.250", "fast"],
                          ["matmul_forward", "tf32x3", "120.00", "100.00", "1.200", "fast"]])
        self.assertEqual(list(compare_llm_c.rows_of(gelu)),
                         [["gelu_forward", "", "5.00", "-", "-", "no counterpart"]])

    def test_another_card_or_shape_is_refused(self):
        for changed in ({"device": "Another"}, {"shape": {"rows": 65}}):
            with self.assertRaises(SystemExit):
                compare_llm_c.merge(make_record(), make_peer() | changed)


if __name__ == "__main__":
    unittest.main()
