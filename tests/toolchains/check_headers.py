#!/usr/bin/env python3
"""Compiles one file that includes every public header with the oldest and the newest nvcc that
PyPI serves, as C++17, C++20 and C++23. PyPI has no nvcc of CUDA 12, only its headers: these stand
for CUDA 12 under the oldest nvcc. C++23 needs nvcc 13.1 or later and a host compiler later than
gcc 12: clang 19. The toolkits are kept in the folder --cache, and only what is missing is fetched.
"""

import argparse
import concurrent.futures
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVERYTHING = "nvidia/"

# What each toolkit is made of: package, version, and which of its files. A later file replaces an
# earlier one of the same name.
TOOLKITS = {
    "nvcc 13.0 over CUDA 12.0's headers": [
        ("nvidia-cuda-nvcc-cu12", "12.0.76", EVERYTHING),
        ("nvidia-cuda-runtime-cu12", "12.0.107", EVERYTHING),
        ("nvidia-cublas-cu12", "12.0.1.189", EVERYTHING),
        # Earlier packages lack the headers whose names have no extension.
        ("nvidia-cuda-cccl-cu12", "12.4.127.post1", EVERYTHING),
        ("nvidia-cuda-nvcc", "13.0.88", EVERYTHING),
        ("nvidia-nvvm", "13.0.88", EVERYTHING),  # 13.0.48 has no cicc where nvcc looks for it
        # The macros of the host code that nvcc makes. What they stand for is in CUDA 13's runtime.
        ("nvidia-cuda-crt", "13.0.88", "nvidia/cu13/include/crt/host_runtime.h"),
    ],
    "nvcc 13.5": [
        ("nvidia-cuda-nvcc", "13.5.37", EVERYTHING),
        ("nvidia-nvvm", "13.5.37", EVERYTHING),
        ("nvidia-cuda-crt", "13.5.37", EVERYTHING),
        ("nvidia-cuda-runtime", "13.5.37", EVERYTHING),
        ("nvidia-cuda-cccl", "13.3.5.0.6", EVERYTHING),
        ("nvidia-cublas", "13.10.0.20", EVERYTHING),
    ],
}

# Toolkit, host compiler, C++ standard, the least __cplusplus that stands for it, and how far to
# compile: to an object, or up to the host compiler, for which CUDA 12 has not all it needs.
CHECKS = [
    ("nvcc 13.0 over CUDA 12.0's headers", "g++", "17", "201703L", "--cuda"),
    ("nvcc 13.0 over CUDA 12.0's headers", "g++", "20", "202002L", "--cuda"),
    ("nvcc 13.5", "g++", "17", "201703L", "--compile"),
    ("nvcc 13.5", "g++", "20", "202002L", "--compile"),
    ("nvcc 13.5", "clang++-19", "23", "202302L", "--compile"),
]


def unpack(wheel, files, toolkit):
    """Puts nvidia/PACKAGE/{bin,include,nvvm}/... into the toolkit, without libraries."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            parts = pathlib.PurePosixPath(name).parts[2:]
            if not name.startswith(files) or not parts or name.endswith("/"):
                continue
            if parts[0] not in ("bin", "include", "nvvm") or ".so" in name:
                continue
            path = toolkit.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)
            if "bin" in parts:
                path.chmod(0o755)


def install(packages, cache):
    """The folder of the toolkit, named after what is in it, so that a change makes a new one."""
    versions = "-".join(version for _, version, _ in packages)
    toolkit = cache / versions
    if toolkit.exists():
        return toolkit
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        unfinished = pathlib.Path(folder) / "toolkit"
        for package, version, files in packages:
            wheels = pathlib.Path(folder) / package
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
                 "--disable-pip-version-check", "--dest", wheels, f"{package}=={version}"],
                check=True)
            unpack(next(wheels.glob("*.whl")), files, unfinished)
            shutil.rmtree(wheels)
        unfinished.rename(toolkit)
    return toolkit


def every_public_header():
    include = ROOT / "include"
    headers = [*include.glob("llmc/*.[hc]*"), *include.glob("llmc/reference/*.hpp"),
               *include.glob("llmc/device/**/*.cuh")]
    return sorted(header.relative_to(include).as_posix() for header in headers)


def check(toolkit, host_compiler, standard, cplusplus, step):
    """Whether it compiles, what the compiler says and the seconds that it takes."""
    lines = [f"#include <{header}>" for header in every_public_header()]
    lines.append(f"static_assert(__cplusplus >= {cplusplus});")
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "every_public_header.cu"
        source.write_text("\n".join(lines) + "\n")
        begin = time.monotonic()
        run = subprocess.run(
            [toolkit / "bin" / "nvcc", f"-std=c++{standard}", "-ccbin", host_compiler,
             "-gencode=arch=compute_90a,code=compute_90a", "--Werror=all-warnings",
             "-I", ROOT / "include", step, source, "-o", pathlib.Path(folder) / "output"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return run.returncode == 0, run.stdout, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=pathlib.Path,
                        default=pathlib.Path.home() / ".cache" / "llmc" / "toolkits")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()

    toolkits = {name: install(packages, arguments.cache) for name, packages in TOOLKITS.items()}
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = [pool.submit(check, toolkits[one[0]], *one[1:]) for one in CHECKS]
        for (name, host_compiler, standard, *_), result in zip(CHECKS, results):
            compiles, output, seconds = result.result()
            verdict = f"compiles in {seconds:.0f} s" if compiles else "does not compile:"
            print(f"{name}, {host_compiler}, C++{standard}: {verdict}", flush=True)
            if not compiles:
                print(output[:4000], flush=True)
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
