#!/usr/bin/env python3
"""Tests of docs/layers: what its pages say of the code is there, and what is there is said."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "layers"
INDEX = FOLDER / "README.md"
PAGES = {path.stem: path.read_text() for path in FOLDER.glob("*.md") if path != INDEX}
CODE = {path: re.sub(r"//.*", "", path.read_text())
        for path in sorted((ROOT / "include").rglob("*.cuh"))}
KERNELS = set(re.findall(r"__global__[^{;]*?(\w+_kernel)\(", "\n".join(CODE.values())))

# Layers that have no page of their own.
PAGE_OF = {"matmul_bias": "matmul", "matmul_gelu": "matmul"}


def rungs(page):
    """The headings of rungs, each with the paragraph that follows."""
    return re.findall(r"^### ((?:`?[a-z_0-9]+`?(?:, )?)+)\n\n(.*?)\n\n", page,
                      re.MULTILINE | re.DOTALL)


def variants(code):
    """The enumerators of a layer, each with the launcher's name."""
    for launcher, body in re.findall(r"enum class (\w+)_variant \{(.*?)\};", code, re.DOTALL):
        for name in re.findall(r"\b([a-z_0-9]+)\b", body):
            if name != "automatic":
                yield launcher, name


class Pages(unittest.TestCase):
    def test_there_is_something_to_test(self):
        self.assertGreater(len(KERNELS), 50)
        self.assertGreater(sum(len(rungs(page)) for page in PAGES.values()), 70)

    def test_each_rung_names_its_kernel(self):
        for name, page in PAGES.items():
            for rung, paragraph in rungs(page):
                with self.subTest(page=name, rung=rung):
                    self.assertTrue(re.match(r"Kernels?: ", paragraph))

    def test_what_is_named_beside_a_rung_exists(self):
        words = set(re.findall(r"\w+", "\n".join(CODE.values())))
        for name, page in PAGES.items():
            for rung, paragraph in rungs(page):
                for word in re.findall(r"`(\w+)", paragraph):
                    with self.subTest(page=name, rung=rung, word=word):
                        self.assertTrue(word in words)

    def test_each_kernel_that_is_named_exists(self):
        for name, page in PAGES.items():
            for kernel in re.findall(r"`(\w+_kernel)`", page):
                with self.subTest(page=name):
                    self.assertIn(kernel, KERNELS)

    def test_each_kernel_is_named(self):
        named = set(re.findall(r"`(\w+_kernel)`", "\n".join(PAGES.values())))
        self.assertEqual(KERNELS - named, set())

    def test_each_variant_is_explained(self):
        for path in (ROOT / "include" / "llmc").glob("*.cuh"):
            page = PAGES.get(PAGE_OF.get(path.stem, path.stem), "")
            for launcher, variant in variants(CODE[path]):
                with self.subTest(launcher=launcher, variant=variant):
                    self.assertTrue(re.search(rf"(`|### ){variant}\b", page))


class Index(unittest.TestCase):
    def test_each_page_is_in_the_order_to_read_once(self):
        order = re.findall(r"^\d+\. \[[^]]*\]\((\w+)\.md\)", INDEX.read_text(), re.MULTILINE)
        self.assertEqual(sorted(order), sorted(PAGES))

    def test_the_glossary_is_sorted(self):
        terms = re.findall(r"^\| \*\*(.+?)\*\* \|", INDEX.read_text(), re.MULTILINE)
        self.assertGreater(len(terms), 15)
        self.assertEqual(terms, sorted(terms, key=str.lower))


if __name__ == "__main__":
    unittest.main()
