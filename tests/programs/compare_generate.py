#!/usr/bin/env python3
"""Compares gpt2_generate with `transformers` on random models.

    compare_generate.py PROGRAM [--backend cpu] [--models 6] [--large]

PROGRAM is gpt2_generate. For random GPT-2s and prompts of different lengths it checks that

- greedy tokens, with and without a repetition penalty, are those of `transformers`, alone and in a
  batch. Where they part, the two best logits must be nearer to each other than rounding tells apart;
- first tokens are drawn as often as the distribution of `transformers` says, with temperature,
  top-k, top-p and repetition penalty: within 5 standard deviations of each token's count.

--large also takes a random model of GPT-2 124M's size. Needs torch, transformers and numpy:
pip install torch transformers numpy.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers

TINY = [  # vocabulary, context, layers, heads, channels
    (256, 32, 1, 1, 8),
    (61, 48, 2, 3, 15),
    (1000, 64, 3, 4, 64),
    (300, 40, 2, 2, 36),
]
GPT2_124M = (50257, 1024, 12, 12, 768)


def random_model(extents, seed):
    vocabulary, context, layers, heads, channels = extents
    torch.manual_seed(seed)
    config = transformers.GPT2Config(
        vocab_size=vocabulary, n_positions=context, n_layer=layers, n_head=heads, n_embd=channels,
        bos_token_id=None, eos_token_id=None, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # so that tokens and their places matter
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def write_checkpoint(path, model):
    """llm.c's FP32 checkpoint, version 3."""
    c = model.config
    padded = (c.vocab_size + 127) // 128 * 128
    header = np.zeros(256, np.int32)
    header[:8] = [20240326, 3, c.n_positions, c.vocab_size, c.n_layer, c.n_head, c.n_embd, padded]
    t = {name: value.detach().float().numpy() for name, value in model.transformer.state_dict().items()}
    wte = np.zeros((padded, c.n_embd), np.float32)
    wte[:c.vocab_size] = t["wte.weight"]
    parts = [wte, t["wpe.weight"]]
    for name, transposed in [("ln_1.weight", False), ("ln_1.bias", False),
                             ("attn.c_attn.weight", True), ("attn.c_attn.bias", False),
                             ("attn.c_proj.weight", True), ("attn.c_proj.bias", False),
                             ("ln_2.weight", False), ("ln_2.bias", False),
                             ("mlp.c_fc.weight", True), ("mlp.c_fc.bias", False),
                             ("mlp.c_proj.weight", True), ("mlp.c_proj.bias", False)]:
        for layer in range(c.n_layer):
            values = t[f"h.{layer}.{name}"]
            parts.append(values.T if transposed else values)
    parts += [t["ln_f.weight"], t["ln_f.bias"]]
    with open(path, "wb") as file:
        file.write(header.tobytes())
        for part in parts:
            file.write(np.ascontiguousarray(part, np.float32).tobytes())


class Program:
    def __init__(self, program, backend, model):
        self.command = [program, str(model), "--tokenizer", "numbers", "--backend", backend,
                        "--json", "--prompts-json", "-"]

    def tokens(self, prompts, *options):
        lines = "".join(json.dumps(" ".join(map(str, prompt))) + "\n" for prompt in prompts)
        done = subprocess.run(self.command + list(map(str, options)), input=lines, text=True,
                              capture_output=True)
        if done.returncode != 0:
            sys.exit(f"gpt2_generate ended with {done.returncode}: {done.stderr}")
        return [json.loads(line)["tokens"] for line in done.stdout.splitlines()]


def processors(penalty, temperature=None, k=None, p=None):
    result = transformers.LogitsProcessorList()
    if penalty != 1:
        result.append(transformers.RepetitionPenaltyLogitsProcessor(penalty))
    if temperature is not None:
        result.append(transformers.TemperatureLogitsWarper(temperature))
    if k:
        result.append(transformers.TopKLogitsWarper(k))
    if p is not None and p < 1:
        result.append(transformers.TopPLogitsWarper(p))
    return result


def wanted_greedy(model, prompt, length, penalty):
    generated = model.generate(
        torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        do_sample=False, max_new_tokens=length, repetition_penalty=penalty, pad_token_id=0)
    return generated[0, len(prompt):].tolist()


@torch.no_grad()
def gap_at(model, text, penalty):
    """How far the best two logits are from each other, of the largest logit's size."""
    logits = model(torch.tensor([text])).logits[:, -1]
    scores = processors(penalty)(torch.tensor([text]), logits.clone())[0]
    best = scores.topk(2).values
    return float((best[0] - best[1]) / logits.abs().max())


def compare_greedy(program, model, prompts, length):
    parted = 0
    for penalty in (1, 1.3):
        options = ["--temperature", 0, "--repetition-penalty", penalty, "-n", length]
        alone = [program.tokens([prompt], *options)[0] for prompt in prompts[:3]]
        for batch in (1, 16):
            got = program.tokens(prompts, *options, "-b", batch)
            if got[:3] != alone:
                sys.exit(f"a batch of {batch} is not what its prompts are alone")
        for prompt, mine in zip(prompts, got):
            theirs = wanted_greedy(model, prompt, length, penalty)
            if mine == theirs:
                continue
            at = next(i for i in range(length) if mine[i] != theirs[i])
            gap = gap_at(model, prompt + theirs[:at], penalty)
            if gap > 1e-5:
                sys.exit(f"token {at} differs: {mine[at]}, transformers {theirs[at]}, gap {gap:.1e}")
            parted += 1
    return parted


@torch.no_grad()
def compare_draws(program, model, prompt, draws):
    text = torch.tensor([prompt])
    logits = model(text).logits[:, -1]
    worst = 0.0
    for temperature, k, p, penalty in [(1.0, 0, 1, 1), (0.7, 20, 1, 1), (1.5, 0, 0.8, 1),
                                       (0.9, 30, 0.9, 1.3), (2.0, 5, 0.5, 0.8)]:
        scores = processors(penalty, temperature, k, p)(text, logits.clone())
        wanted = scores.softmax(-1)[0].numpy()
        got = program.tokens([prompt], "-n", 1, "--samples", draws, "--temperature", temperature,
                             "--top-k", k, "--top-p", p, "--repetition-penalty", penalty)
        counts = np.bincount([tokens[0] for tokens in got], minlength=len(wanted))
        if counts[wanted == 0].any():
            sys.exit(f"tokens were drawn that transformers does not draw: T {temperature}, k {k}, p {p}")
        # Tokens that are too rare for a normal distribution count as one.
        rare = draws * wanted < 20
        expected = draws * np.append(wanted[~rare], wanted[rare].sum())
        counts = np.append(counts[~rare], counts[rare].sum())
        deviation = np.sqrt(np.maximum(expected * (1 - expected / draws), 1))
        worst = max(worst, float((np.abs(counts - expected) / deviation).max()))
    if worst > 5:
        sys.exit(f"a token's count is {worst:.1f} standard deviations off")
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--models", type=int, default=6)
    parser.add_argument("--large", action="store_true")
    arguments = parser.parse_args()
    cases = [TINY[i % len(TINY)] for i in range(arguments.models)]
    if arguments.large:
        cases.append(GPT2_124M)
    with tempfile.TemporaryDirectory() as folder:
        for seed, extents in enumerate(cases):
            model = random_model(extents, seed)
            path = Path(folder) / "model.bin"
            write_checkpoint(path, model)
            if extents != GPT2_124M:
                model = model.double()
            program = Program(arguments.program, arguments.backend, path)
            random = np.random.default_rng(seed)
            vocabulary, context = extents[:2]
            length = context // 2
            prompts = [random.integers(0, vocabulary, int(count)).tolist()
                       for count in random.integers(1, context - length + 1, 8)]
            if extents == GPT2_124M:
                length, prompts = 48, prompts[:4]
            parted = compare_greedy(program, model, prompts, length)
            draws = 300 if extents == GPT2_124M else 4000
            worst = compare_draws(program, model, prompts[0], draws)
            print(f"{extents}: greedy equal ({parted} texts part at equal logits), "
                  f"draws within {worst:.1f} standard deviations", flush=True)


if __name__ == "__main__":
    main()
