#!/usr/bin/env python3
"""Times a training step of gpt2_train and of PyTorch (SDPA, fused AdamW) on the same GPU.

Prints the median over the timed steps, each of which ends with the loss on the host. PyTorch gets
the padded vocabulary, as gpt2_train does: unpadded it is slower. It does not compute the gradient
norm, which gpt2_train reports.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch

import gpt2_pytorch as gpt2

# llmc's precision: PyTorch's name of the same arithmetic.
PRECISIONS = {"ieee": "highest", "tf32": "high", "tf32x3": "highest"}
VOCABULARY = 50257
WARM_UP = 5


def time_llmc(options, precision):
    tokens = torch.randint(VOCABULARY, (16 * options.batch * options.sequence + 1,)).tolist()
    with tempfile.TemporaryDirectory() as folder:
        shard, log = pathlib.Path(folder) / "tokens.bin", pathlib.Path(folder) / "log.jsonl"
        gpt2.write_shard(shard, tokens)
        subprocess.run(
            [options.gpt2_train, "--init", f"d{options.depth}", "--data", shard,
             "-b", str(options.batch), "-t", str(options.sequence),
             "--steps", str(WARM_UP + options.steps), "--precision", precision,
             "--backend", "cuda", "--val-every", "0", "--sample-every", "0",
             "--checkpoint-every", "0", "--log", log], check=True, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in log.read_text().splitlines()]
    return statistics.median([line["ms"] for line in lines if "ms" in line][WARM_UP:])


def time_pytorch(options, precision, compiled):
    torch.set_float32_matmul_precision(PRECISIONS[precision])
    config = gpt2.Config.from_depth(options.depth, VOCABULARY)
    config.vocabulary = config.padded_vocabulary
    model = gpt2.GPT2(config).cuda()
    optimizer = torch.optim.AdamW(model.optimizer_groups(0.1), lr=1e-4, fused=True)
    tokens = torch.randint(VOCABULARY, (options.batch, options.sequence), device="cuda")
    loss_of = torch.compile(model.loss) if compiled else model.loss

    def step():
        optimizer.zero_grad()
        loss = loss_of(tokens, tokens)
        loss.backward()
        optimizer.step()
        return loss.item()

    milliseconds = []
    for _ in range(WARM_UP + options.steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        milliseconds.append(1e3 * (time.perf_counter() - start))
    return statistics.median(milliseconds[WARM_UP:])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpt2-train", required=True, help="the program")
    parser.add_argument("--depth", type=int, default=12, choices=sorted(gpt2.DEPTHS))
    parser.add_argument("-b", "--batch", type=int, default=4)
    parser.add_argument("-t", "--sequence", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=30, help="steps that are timed")
    parser.add_argument("--precision", nargs="+", default=["ieee", "tf32", "tf32x3"], choices=PRECISIONS)
    parser.add_argument("--compile", action="store_true", help="time torch.compile, too")
    options = parser.parse_args()

    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, d{options.depth}, "
          f"B = {options.batch}, T = {options.sequence}; ms a step")
    print("precision     llmc   eager  llmc/eager" + ("  compiled  llmc/compiled"
                                                      if options.compile else ""))
    for precision in options.precision:
        llmc = time_llmc(options, precision)
        eager = time_pytorch(options, precision, compiled=False)
        row = f"{precision:9} {llmc:8.2f} {eager:7.2f} {llmc / eager:11.3f}"
        if options.compile:
            compiled = time_pytorch(options, precision, compiled=True)
            row += f" {compiled:9.2f} {llmc / compiled:14.3f}"
        print(row, flush=True)


if __name__ == "__main__":
    main()
