#!/usr/bin/env python3
"""Writes what gpt2_verify reads, from a PyTorch GPT-2 with random parameters:

    FOLDER/gpt2_dN.bin              llm.c's FP32 checkpoint
    FOLDER/gpt2_dN_debug_state.bin  llm.c's debug state: a batch, its logits, loss and gradients
    FOLDER/gpt2_dN_batch.bin        a token shard of B*T+1 tokens, whose only batch is that batch

The forward and backward pass run in float64, so the state is right to the last digit of FP32.
"""

import argparse
import pathlib

import torch

import gpt2_pytorch as gpt2


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--depth", type=int, default=12, choices=sorted(gpt2.DEPTHS))
    parser.add_argument("-b", "--batch", type=int, default=4)
    parser.add_argument("-t", "--sequence", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = gpt2.GPT2(gpt2.Config.from_depth(options.depth))
    gpt2.initialise(model, options.seed)
    options.folder.mkdir(parents=True, exist_ok=True)
    stem = options.folder / f"gpt2_d{options.depth}"
    gpt2.write_checkpoint(f"{stem}.bin", model)

    generator = torch.Generator().manual_seed(options.seed + 1)
    tokens = torch.randint(model.config.vocabulary, (options.batch * options.sequence + 1,),
                           generator=generator)
    gpt2.write_shard(f"{stem}_batch.bin", tokens.tolist())
    shape = (options.batch, options.sequence)
    _, loss = gpt2.write_state(f"{stem}_debug_state.bin", model.to(device, torch.float64),
                               tokens[:-1].view(shape).to(device),
                               tokens[1:].view(shape).to(device))
    print(f"{stem}.bin, {stem}_debug_state.bin and {stem}_batch.bin: loss {loss:.6f}")


if __name__ == "__main__":
    main()
