#!/usr/bin/env python3
"""Compiles the code blocks of Markdown files whose fence says so.

A block that begins with ```cpp compiled is compiled by the C++ compiler, one that begins with
```cuda compiled by nvcc; each must be a whole source file. Warnings are errors. Where the line
before it is <!-- same as FILE -->, it must be the text of that file beside the document.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^(?:<!-- same as (\S+) -->\n)?```(cpp|cuda) compiled\n(.*?)^```$",
                   re.MULTILINE | re.DOTALL)


def command(language, source, options):
    common = ["-std=c++17", f"-I{ROOT / 'include'}", "-c", "-o", "/dev/null", source]
    if language == "cpp":
        return [options.cxx, "-Wall", "-Wextra", "-Werror", *common]
    return [options.nvcc, "-arch=compute_75", "-Xcompiler=-Wall,-Wextra,-Werror",
            "--Werror=all-warnings", *common]


def is_sound(document, number, same_as, language, text, options):
    if same_as and (document.parent / same_as).read_text() != text:
        print(f"{document.relative_to(ROOT)}, block {number}: NOT THE SAME AS {same_as}")
        return False
    suffix = {"cpp": ".cpp", "cuda": ".cu"}[language]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / f"{document.stem}_{number}{suffix}"
        source.write_text(text)
        result = subprocess.run(command(language, source, options), check=False)
    verdict = "compiles" if result.returncode == 0 else "DOES NOT COMPILE"
    print(f"{document.relative_to(ROOT)}, block {number} ({language}): {verdict}", flush=True)
    return result.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cxx", default="g++")
    parser.add_argument("--nvcc", default="nvcc")
    options = parser.parse_args()
    results = [
        is_sound(document, number, *block.groups(), options)
        for document in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        for number, block in enumerate(BLOCK.finditer(document.read_text()), 1)
    ]
    if not results:
        sys.exit("no block is marked as compiled, so this shows nothing")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
