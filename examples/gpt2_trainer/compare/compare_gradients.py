#!/usr/bin/env python3
"""Compares the gradients of gpt2_train's model and of PyTorch in float32 with those in float64.

STATE is a debug state made by make_state.py, whose gradients were computed in float64; gpt2_verify
says how far llmc's are from them, and PyTorch's in float32 are computed here from the checkpoint
beside it. An error is relative in the Euclidean norm, over a parameter of all layers. Exit status 1
if, over all gradients together, llmc is farther from float64 than PyTorch.
"""

import argparse
import pathlib
import re
import subprocess

import torch

import gpt2_pytorch as gpt2

LINE = re.compile(r"^(\w+) +(\d+) +(\S+) +\S+ +(?:NOT )?OK$", re.MULTILINE)


def gradients(state, dtype, device):
    """Of each parameter, all layers in one, in float64 on the CPU."""
    model = gpt2.read_checkpoint(gpt2.checkpoint_beside(state)).to(device, dtype)
    tokens, targets = (part.to(device) for part in gpt2.read_batch(state))
    model.loss(tokens, targets).backward()
    return {name: torch.cat([tensor.grad.flatten() for tensor in tensors]).double().cpu()
            for name, tensors in model.named_tensors()}


def llmc_errors(options):
    """What gpt2_verify prints of each parameter's gradient; its own verdict does not count here."""
    command = [options.gpt2_verify, options.state, "--backend", options.backend,
               "--precision", options.precision]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = {name: float(relative) for name, _, relative in LINE.findall(result.stdout)}
    if not errors:
        raise SystemExit(f"gpt2_verify: {result.stderr.strip() or result.stdout.strip()}")
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("state", type=pathlib.Path, metavar="STATE")
    parser.add_argument("--gpt2-verify", required=True, help="the program")
    parser.add_argument("--precision", default="tf32x3", choices=("ieee", "tf32", "tf32x3"))
    parser.add_argument("--matmul-precision", default="highest", choices=("highest", "high"),
                        help="of PyTorch [highest]")
    parser.add_argument("--backend", default="cuda", choices=("cuda", "cpu"), help="of both [cuda]")
    options = parser.parse_args()

    exact = gradients(options.state, torch.float64, options.backend)
    torch.set_float32_matmul_precision(options.matmul_precision)
    single = gradients(options.state, torch.float32, options.backend)
    ours = llmc_errors(options)
    print(f"{'gradient':10} {'llmc':>10} {'PyTorch':>10} {'ratio':>7}")
    squares = llmc_squares = torch_squares = 0.0
    for name, expected in exact.items():
        norm = expected.norm().item()
        distance = (single[name] - expected).norm().item()
        squares += norm**2
        llmc_squares += (ours[name] * norm) ** 2
        torch_squares += distance**2
        theirs = distance / norm
        print(f"{name:10} {ours[name]:10.2e} {theirs:10.2e} {ours[name] / theirs:7.2f}")
    llmc, theirs = ((s / squares) ** 0.5 for s in (llmc_squares, torch_squares))
    print(f"{'all':10} {llmc:10.2e} {theirs:10.2e} {llmc / theirs:7.2f}")
    if not llmc <= theirs:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
