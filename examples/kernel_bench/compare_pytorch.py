#!/usr/bin/env python3
"""Compares llmc with PyTorch on this machine's GPU: every operation of kernel_bench, GPT-2's matrix
products, or attention.

    compare_pytorch.py record record.json --out record.json
    compare_pytorch.py products build/examples/kernel_bench/libkernel_bench_c.so
    compare_pytorch.py attention build/examples/kernel_bench/libkernel_bench_c.so

Each command says with --help what it measures.
"""

import argparse

import torch

import torch_attention
import torch_products
import torch_record


def main():
    keep_lines = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep_lines)
    commands = parser.add_subparsers(required=True)
    for name, part in (("record", torch_record), ("products", torch_products),
                       ("attention", torch_attention)):
        command = commands.add_parser(name, description=part.__doc__, formatter_class=keep_lines)
        command.set_defaults(compare=part.compare)
        part.add_options(command)
    options = parser.parse_args()

    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}", flush=True)
    options.compare(options)


if __name__ == "__main__":
    main()
