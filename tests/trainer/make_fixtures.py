#!/usr/bin/env python3
"""Writes the fixtures of the trainer's tests, from PyTorch in float64: make_fixtures.py FOLDER

    tiny_gpt2.bin              llm.c's FP32 checkpoint of a model with awkward extents
    tiny_gpt2_debug_state.bin  llm.c's debug state of a batch shorter than the model's context
    tiny_gpt2_float64.bin      float64 numbers, one after another:
        the loss; the logits (B,T,V); the gradients in the parameters' order, wte padded with zeros;
        the losses of ten AdamW steps on that batch; the parameters after them, padded likewise

All constants of the optimiser are exact in FP32, so that llmc's and PyTorch's are the same.
"""

import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/gpt2_trainer/compare"))
import gpt2_pytorch as gpt2  # noqa: E402

CONFIG = gpt2.Config(max_sequence=11, vocabulary=61, layers=2, heads=3, channels=15)
BATCH, SEQUENCE = 2, 7
STEPS = 10
LEARNING_RATE, BETA1, BETA2, EPSILON, WEIGHT_DECAY = 2**-7, 0.875, 0.96875, 2**-20, 0.125
MAX_NORM = 1.0


@torch.no_grad()
def strong_parameters(model):
    """Nothing near zero and no bias at its start, so that no gradient is small by luck."""
    generator = torch.Generator().manual_seed(7)
    for name, tensors in model.named_tensors():
        for tensor in tensors:
            tensor.normal_(1.0 if name in ("ln1w", "ln2w", "lnfw") else 0.0, 0.25,
                           generator=generator)


def clip(model):
    gradients = [parameter.grad for parameter in model.parameters()]
    norm = torch.sqrt(sum((gradient**2).sum() for gradient in gradients))
    if norm > MAX_NORM:
        for gradient in gradients:
            gradient.mul_(MAX_NORM / norm)


def train(model, tokens, targets):
    optimizer = torch.optim.AdamW(model.optimizer_groups(WEIGHT_DECAY), lr=LEARNING_RATE,
                                  betas=(BETA1, BETA2), eps=EPSILON)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model.loss(tokens, targets)
        loss.backward()
        clip(model)
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    folder.mkdir(parents=True, exist_ok=True)
    model = gpt2.GPT2(CONFIG)
    strong_parameters(model)
    gpt2.write_checkpoint(folder / "tiny_gpt2.bin", model)

    model = model.double()
    generator = torch.Generator().manual_seed(8)
    tokens, targets = torch.randint(CONFIG.vocabulary, (2, BATCH, SEQUENCE), generator=generator)
    logits, loss = gpt2.write_state(folder / "tiny_gpt2_debug_state.bin", model, tokens, targets)
    with open(folder / "tiny_gpt2_float64.bin", "wb") as file:
        file.write(gpt2.tensor_bytes(loss, torch.float64))
        file.write(gpt2.tensor_bytes(logits, torch.float64))
        gpt2.write_tensors(file, model, torch.float64, gradients=True)
        losses = train(model, tokens, targets)
        file.write(gpt2.tensor_bytes(torch.tensor(losses, dtype=torch.float64), torch.float64))
        gpt2.write_tensors(file, model, torch.float64)
    print(f"{folder}: loss {losses[0]:.6f} before and {losses[-1]:.6f} at step {STEPS}")


if __name__ == "__main__":
    main()
