#!/usr/bin/env python3
"""Compares ten steps of training on one batch: PyTorch in float32 and float64, and gpt2_train.

STATE is a debug state made by make_state.py, whose checkpoint and token shard lie beside it. All
three start from that checkpoint and take AdamW steps with weight decay on matrices, a constant
learning rate and no clipping. Exit status 1 if gpt2_train differs from PyTorch in float32 by more
than 1e-4 relative, 1e-2 with --precision tf32, or if PyTorch's two precisions differ by more than
1e-4: then the learning rate amplifies rounding errors, and the comparison says nothing.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

import torch

import gpt2_pytorch as gpt2

BETAS, EPSILON = (0.9, 0.95), 1e-8


def train_pytorch(state, dtype, options):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = gpt2.read_checkpoint(gpt2.checkpoint_beside(state)).to(device, dtype)
    tokens, targets = (part.to(device) for part in gpt2.read_batch(state))
    optimizer = torch.optim.AdamW(model.optimizer_groups(options.weight_decay), lr=options.lr,
                                  betas=BETAS, eps=EPSILON)
    losses = []
    for _ in range(options.steps):
        optimizer.zero_grad()
        loss = model.loss(tokens, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_llmc(state, options):
    batch, sequence = gpt2.read_batch(state)[0].shape
    shard = state.with_name(state.name.replace("_debug_state", "_batch"))
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "log.jsonl"
        subprocess.run(
            [options.gpt2_train, "--checkpoint", gpt2.checkpoint_beside(state), "--data", shard,
             "-b", str(batch), "-t", str(sequence), "--order", "sequential",
             "--steps", str(options.steps), "--lr", str(options.lr), "--schedule", "constant",
             "--warmup", "0", "--weight-decay", str(options.weight_decay), "--clip", "0",
             "--beta1", str(BETAS[0]), "--beta2", str(BETAS[1]), "--val-every", "0",
             "--sample-every", "0", "--checkpoint-every", "0", "--precision", options.precision,
             "--log", log], check=True, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def worst(losses, expected):
    return max(abs(a - b) / abs(b) for a, b in zip(losses, expected, strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("state", type=pathlib.Path, metavar="STATE")
    parser.add_argument("--gpt2-train", required=True, help="the program")
    parser.add_argument("--precision", default="ieee", choices=("ieee", "tf32", "tf32x3"))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    options = parser.parse_args()

    double = train_pytorch(options.state, torch.float64, options)
    single = train_pytorch(options.state, torch.float32, options)
    ours = train_llmc(options.state, options)
    print("step   float64    float32       llmc   llmc/float32 - 1")
    for step, (d, s, o) in enumerate(zip(double, single, ours, strict=True), 1):
        print(f"{step:4} {d:9.6f}  {s:9.6f}  {o:9.6f}   {o / s - 1:+.2e}")
    rounding, difference = worst(single, double), worst(ours, single)
    limit = 1e-2 if options.precision == "tf32" else 1e-4
    print(f"PyTorch's float32 against float64: {rounding:.1e}, at most 1e-4\n"
          f"llmc against PyTorch's float32:    {difference:.1e}, at most {limit:.0e}")
    if rounding > 1e-4 or difference > limit:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
