#!/usr/bin/env python3
"""Times PyTorch's training step of GPT-2 on random tokens and prints a line of JSON.

A step is the one of `gpt2_train --benchmark`: forward with scaled_dot_product_attention, backward,
clipping of the gradient to norm 1 and fused AdamW with weight decay on matrices, all in float32, on
the next batch. The vocabulary is padded to 50304 here, too, since unpadded it is slower. PyTorch
has two things easier: its batches lie on the GPU before the first step, and no step waits for the
host, which reads the loss once at the end. A time is the one between the ends of two steps on the
GPU; where the host is too slow to keep it busy, that counts.
"""

import argparse
import itertools
import json

import torch

import gpt2_pytorch as gpt2

MODES = ("eager", "compile", "reduce-overhead")
VOCABULARY = 50257
BATCHES = 8  # that take turns
MAX_NORM = 1.0


def make_model(depth):
    config = gpt2.Config.from_depth(depth, VOCABULARY)
    config.vocabulary = config.padded_vocabulary
    model = gpt2.GPT2(config)
    gpt2.initialise(model, seed=42)
    return model


def compiled(function, mode):
    if mode == "eager":
        return function
    return torch.compile(function, mode="default" if mode == "compile" else mode)


def make_step(options, device):
    """A function that takes one training step and returns its loss, on the device."""
    model = make_model(options.depth).to(device)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(model.optimizer_groups(weight_decay=0.1), lr=3e-4,
                                  betas=(0.9, 0.95), eps=1e-8, fused=True)
    loss_of = compiled(model.loss, options.mode)
    shape = (options.batch, options.sequence)
    draw = lambda: torch.randint(VOCABULARY, shape, device=device)
    batches = itertools.cycle([(draw(), draw()) for _ in range(BATCHES)])

    def step():
        tokens, targets = next(batches)
        torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad()
        loss = loss_of(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM, foreach=True)
        optimizer.step()
        return loss.detach()

    return step


def time_steps(step, options):
    """Milliseconds of each step after the warm-up, and the last loss."""
    for _ in range(options.warm_up):
        step()
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(options.steps + 1)]
    for end in ends:
        loss = step()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in itertools.pairwise(ends)], loss.item()


def measure(options):
    torch.set_float32_matmul_precision(options.matmul_precision)
    torch.manual_seed(42)
    milliseconds, loss = time_steps(make_step(options, "cuda"), options)
    return {"device": torch.cuda.get_device_name(), "torch": torch.__version__,
            "cuda": torch.version.cuda, "milliseconds": milliseconds, "loss": loss,
            "max_memory_allocated": torch.cuda.max_memory_allocated(),
            "max_memory_reserved": torch.cuda.max_memory_reserved()}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", default="eager", choices=MODES,
                        help="compile: torch.compile; reduce-overhead: its mode with CUDA graphs")
    parser.add_argument("--matmul-precision", default="highest", choices=("highest", "high"))
    parser.add_argument("--depth", type=int, default=12, choices=sorted(gpt2.DEPTHS))
    parser.add_argument("-b", "--batch", type=int, default=4)
    parser.add_argument("-t", "--sequence", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=50, help="steps that are timed [50]")
    parser.add_argument("--warm-up", type=int, default=10, help="steps before them [10]")
    print(json.dumps(measure(parser.parse_args())))


if __name__ == "__main__":
    main()
