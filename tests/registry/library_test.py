#!/usr/bin/env python3
"""Tests of examples/kernel_bench/library.py on a machine that need not have a GPU: library_test.py
libkernel_bench_c.so."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "kernel_bench"))
from library import Error, Library  # noqa: E402

LIBRARY = Library(sys.argv.pop())


class Tensor:
    """As much of a tensor as a call that is never launched needs."""

    def data_ptr(self):
        return 1 << 40


class Calls(unittest.TestCase):
    def call(self, operation="matmul_forward", rows=64, precision="tf32", **others):
        arrays = {"out": Tensor(), "inp": Tensor(), "weight": Tensor(), "bias": None} | others
        return LIBRARY.call(operation, {"rows": rows, "channels": 32}, arrays,
                            precision=precision)

    def test_listing(self):
        self.assertIn("\nmatmul_forward, ", LIBRARY.listing())

    def test_known(self):
        self.call()

    def test_refusals(self):
        for change, text in (({"operation": "matmul"}, "no operation matmul;"),
                             ({"precision": None}, "no automatic without a precision, only"),
                             ({"rows": 0}, "no extent rows of 0"),
                             ({"dout": Tensor()}, "no array dout")):
            with self.assertRaisesRegex(Error, text):
                self.call(**change)


if __name__ == "__main__":
    unittest.main()
