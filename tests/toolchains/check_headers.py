#!/usr/bin/env python3
"""Compiles every public header with the toolchains that users may have.

With nvcc: one file that includes them all, with the oldest and the newest nvcc that PyPI serves, as
C++17, C++20 and C++23. PyPI has no nvcc of CUDA 12, only its headers: these stand for CUDA 12 under
the oldest nvcc. C++23 needs nvcc 13.1 or later and a host compiler later than gcc 12. The toolkits
are kept in the folder --cache, and only what is missing is fetched.

Without nvcc: the plain C++ headers with g++ and the newest clang that is installed, in each of these
standards, and with clang the tests of the CPU reference, which instantiate its templates.
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

# Toolkit, host compiler, C++ standard, and how far to compile: to an object, or up to the host
# compiler, for which CUDA 12 has not all it needs.
NVCC_CHECKS = [
    ("nvcc 13.0 over CUDA 12.0's headers", "g++", "17", "--cuda"),
    ("nvcc 13.0 over CUDA 12.0's headers", "g++", "20", "--cuda"),
    ("nvcc 13.5", "g++", "17", "--compile"),
    ("nvcc 13.5", "g++", "20", "--compile"),
    ("nvcc 13.5", "clang++", "23", "--compile"),
]
CPLUSPLUS = {"17": "201703L", "20": "202002L", "23": "202100L"}  # gcc 12 has a draft of C++23


def newest_clang():
    """The newest clang++-N on PATH; N is at least 19, the first that nvcc takes for C++23."""
    for version in range(99, 18, -1):
        found = shutil.which(f"clang++-{version}")
        if found:
            return found
    sys.exit("there is no clang++-19 or later: apt-get install clang-19")


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


def public_headers(*patterns):
    include = ROOT / "include"
    return sorted(header.relative_to(include).as_posix()
                  for pattern in patterns for header in include.glob(pattern))


PLAIN = ("llmc/*.hpp", "llmc/reference/*.hpp")
CUDA = ("llmc/*.cuh", "llmc/device/**/*.cuh")


def including(headers, standard):
    lines = [f"#include <{header}>" for header in headers]
    lines.append(f"static_assert(__cplusplus >= {CPLUSPLUS[standard]});")
    return "\n".join(lines) + "\n"


def compile_text(name, text, command):
    """Whether `command` compiles that text, what the compiler says and the seconds that it takes."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / name
        source.write_text(text)
        begin = time.monotonic()
        run = subprocess.run([*command, source, "-o", pathlib.Path(folder) / "output"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return run.returncode == 0, run.stdout, time.monotonic() - begin


def check_nvcc(toolkit, host_compiler, standard, step):
    # nvcc 13.5 knows clang up to 21.
    command = [toolkit / "bin" / "nvcc", f"-std=c++{standard}", "-ccbin", host_compiler,
               "-allow-unsupported-compiler", "-gencode=arch=compute_90a,code=compute_90a",
               "--Werror=all-warnings", "-I", ROOT / "include", step]
    return compile_text("every_public_header.cu",
                        including(public_headers(*PLAIN, *CUDA), standard), command)


def host_command(compiler, standard, cuda_headers):
    return [compiler, f"-std=c++{standard}", "-Wall", "-Wextra", "-Wconversion", "-Wshadow",
            "-Werror", "-I", ROOT / "include", "-isystem", cuda_headers, "-fsyntax-only"]


def check_host(compiler, standard, cuda_headers):
    command = host_command(compiler, standard, cuda_headers)
    return compile_text("every_plain_header.cpp", including(public_headers(*PLAIN), standard),
                        [*command, "-Wpedantic", "-Wsign-conversion"])


def check_reference(compiler, cuda_headers):
    """As check_host, for the files that instantiate what is in the CPU reference."""
    begin = time.monotonic()
    version = "2" if pathlib.Path("/usr/include/catch2/catch.hpp").exists() else "3"
    run = subprocess.run(
        [*host_command(compiler, "20", cuda_headers),
         f"-DLLMC_CATCH_VERSION={version}", "-I", ROOT / "examples",
         *(ROOT / "tests" / "reference").glob("*.cpp")],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return run.returncode == 0, run.stdout, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=pathlib.Path,
                        default=pathlib.Path.home() / ".cache" / "llmc" / "toolkits")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only-host", action="store_true", help="leave nvcc out")
    arguments = parser.parse_args()

    clang = newest_clang()
    toolkits = {name: install(packages, arguments.cache) for name, packages in TOOLKITS.items()}
    headers = toolkits["nvcc 13.5"] / "include"
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        results = []
        for compiler in ("g++", clang):
            for standard in CPLUSPLUS:
                results.append((f"{compiler}, C++{standard}",
                                pool.submit(check_host, compiler, standard, headers)))
        results.append((f"{clang}, tests/reference",
                        pool.submit(check_reference, clang, headers)))
        for name, host_compiler, standard, step in [] if arguments.only_host else NVCC_CHECKS:
            host_compiler = clang if host_compiler == "clang++" else host_compiler
            results.append((f"{name}, {host_compiler}, C++{standard}",
                            pool.submit(check_nvcc, toolkits[name], host_compiler, standard, step)))
        for label, result in results:
            compiles, output, seconds = result.result()
            verdict = f"compiles in {seconds:.0f} s" if compiles else "does not compile:"
            print(f"{label}: {verdict}", flush=True)
            if not compiles:
                print(output[:4000], flush=True)
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
