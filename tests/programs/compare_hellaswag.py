#!/usr/bin/env python3
"""Compares gpt2_eval with the same rules in Python, in float64: compare_hellaswag.py GPT2_EVAL

    --tokenizer FILE   a tokenizer.json, for HellaSwag's lines of JSON as text
    --examples N       of each form [200]

Writes a random model and random examples, in llm.c's form and as lines of JSON, computes all losses
with numpy from the model's file, and requires of every example that gpt2_eval chose the same
completion by each rule, and that its losses are the same to 1e-5. Where Python's two best
completions differ by less than that, which one is chosen says nothing; such examples are counted.
Then it compares mean loss and bits per byte of a text, with two strides. Needs numpy, and with
--tokenizer `tokenizers`.
"""

import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import numpy as np

TOLERANCE = 1e-5
RULES = ("loss_per_token", "loss", "loss_per_byte")


class Model:
    """GPT-2 as llm.c's checkpoint holds it."""

    def __init__(self, context, vocabulary, layers=2, heads=4, channels=32, seed=1):
        self.context, self.vocabulary, self.layers, self.heads = context, vocabulary, layers, heads
        self.padded = (vocabulary + 127) // 128 * 128
        L, C = layers, channels
        self.channels = C
        shapes = {
            "wte": (self.padded, C), "wpe": (context, C), "ln1w": (L, C), "ln1b": (L, C),
            "qkvw": (L, 3 * C, C), "qkvb": (L, 3 * C), "attprojw": (L, C, C), "attprojb": (L, C),
            "ln2w": (L, C), "ln2b": (L, C), "fcw": (L, 4 * C, C), "fcb": (L, 4 * C),
            "fcprojw": (L, C, 4 * C), "fcprojb": (L, C), "lnfw": (C,), "lnfb": (C,)}
        generator = np.random.default_rng(seed)
        self.p = {}
        for name, shape in shapes.items():
            mean = 1.0 if name in ("ln1w", "ln2w", "lnfw") else 0.0
            self.p[name] = (mean + 0.2 * generator.standard_normal(shape)).astype(np.float32)
        self.p["wte"][vocabulary:] = 0

    def write(self, path):
        header = [20240326, 3, self.context, self.vocabulary, self.layers, self.heads,
                  self.channels, self.padded] + [0] * 248
        path.write_bytes(struct.pack("<256i", *header)
                         + b"".join(tensor.tobytes() for tensor in self.p.values()))

    def losses(self, tokens):
        """Of tokens[1:], each from those before it."""
        inputs, targets = np.array(tokens[:-1]), np.array(tokens[1:])
        p = {name: tensor.astype(np.float64) for name, tensor in self.p.items()}
        T, C, size = len(inputs), self.channels, self.channels // self.heads

        def norm(x, weight, bias):
            x = x - x.mean(axis=1, keepdims=True)
            return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5) * weight + bias

        x = p["wte"][inputs] + p["wpe"][:T]
        for l in range(self.layers):
            h = norm(x, p["ln1w"][l], p["ln1b"][l]) @ p["qkvw"][l].T + p["qkvb"][l]
            q, k, v = (h[:, i * C:(i + 1) * C].reshape(T, self.heads, size).transpose(1, 0, 2)
                       for i in range(3))
            scores = q @ k.transpose(0, 2, 1) / np.sqrt(size)
            scores[:, np.triu(np.ones((T, T), bool), 1)] = -np.inf
            scores = np.exp(scores - scores.max(axis=2, keepdims=True))
            out = (scores / scores.sum(axis=2, keepdims=True)) @ v
            x = x + out.transpose(1, 0, 2).reshape(T, C) @ p["attprojw"][l].T + p["attprojb"][l]
            h = norm(x, p["ln2w"][l], p["ln2b"][l]) @ p["fcw"][l].T + p["fcb"][l]
            h = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
            x = x + h @ p["fcprojw"][l].T + p["fcprojb"][l]
        logits = norm(x, p["lnfw"], p["lnfb"]) @ p["wte"][:self.vocabulary].T
        most = logits.max(axis=1, keepdims=True)
        sums = most[:, 0] + np.log(np.exp(logits - most).sum(axis=1))
        return sums - logits[np.arange(T), targets]


def evaluate(program, model, *options):
    command = [program, str(model), "--json", "-", "--backend", "cpu", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def require(so, text):
    if not so:
        sys.exit("NOT EQUAL: " + text)


def compare_choices(name, found, model, examples):
    """`examples`: label, context, completions, and the bytes of each completion or None."""
    require(len(found["judged"]) == len(examples), f"{name}: number of examples")
    correct = dict.fromkeys(RULES, 0)
    ties = cut = 0
    for i, (judged, (label, context, completions, sizes)) in enumerate(zip(found["judged"], examples)):
        sums, is_cut = [], False
        for completion in completions:
            row = context + completion
            is_cut = is_cut or len(row) > model.context + 1
            row = row[-(model.context + 1):]
            sums.append(model.losses(row)[-len(completion):].sum())
        cut += is_cut
        wanted = {"loss_per_token": [s / len(c) for s, c in zip(sums, completions)], "loss": sums}
        if sizes:
            wanted["loss_per_byte"] = [s / size for s, size in zip(sums, sizes)]
        for rule, values in wanted.items():
            seen = judged[rule]
            require(np.allclose(seen["completions"], values, rtol=TOLERANCE),
                    f"{name}: example {i}, {rule}: wanted {values}, got {seen['completions']}")
            best, second = sorted(values)[:2]
            if second - best <= 2 * TOLERANCE * second:
                ties += 1
                continue
            require(seen["chosen"] == int(np.argmin(values)), f"{name}: example {i}, {rule}: choice")
        for rule in wanted:
            correct[rule] += judged[rule]["chosen"] == label
    require(found["cut"] == cut, f"{name}: contexts cut: wanted {cut}, got {found['cut']}")
    for rule in wanted:
        require(found["accuracy"][rule]["correct"] == correct[rule], f"{name}: {rule}: accuracy")
    shares = ", ".join(f"{rule} {found['accuracy'][rule]['share']:.4f}" for rule in wanted)
    print(f"{name}: {len(examples)} examples, every choice equal ({ties} too close to say, "
          f"{cut} cut): {shares}")


def write_choices(path, examples):
    body, longest = [], 0
    for index, (label, context, completions, _) in enumerate(examples):
        numbers = [65535, 0, index, label, len(completions), len(context), *context]
        for completion in completions:
            numbers += [len(completion), *completion]
        numbers[1] = 2 * len(numbers)
        longest = max(longest, numbers[1])
        body += numbers
    path.write_bytes(struct.pack("<256i", 20240522, 1, len(examples), longest, *[0] * 252)
                     + struct.pack(f"<{len(body)}H", *body))


def compare_llm_c_form(program, folder, count):
    model = Model(context=48, vocabulary=500)
    model.write(folder / "model.bin")
    draw = random.Random(2)

    def tokens(least, most):
        return [draw.randrange(500) for _ in range(draw.randint(least, most))]

    examples = [(draw.randrange(4), tokens(1, 45), [tokens(1, 12) for _ in range(4)], None)
                for _ in range(count)]
    write_choices(folder / "choices.bin", examples)
    for batch in (1, 6):
        found = evaluate(program, folder / "model.bin", "--hellaswag", folder / "choices.bin",
                         "-b", batch)
        compare_choices(f"llm.c's form, batch {batch}", found["hellaswag"], model, examples)


WORDS = "the a man woman roof is sits on with cube starts pulling, up. It's “old” naïve 12 – ski".split(" ")


def text_examples(count):
    draw = random.Random(3)

    def text(least, most):
        return " ".join(draw.choice(WORDS) for _ in range(draw.randint(least, most)))

    for _ in range(count):
        a, b = text(1, 10), text(1, 3)
        example = {"ctx_a": a, "ctx_b": b, "label": draw.randrange(4),
                   "endings": [text(1, 5) for _ in range(4)]}
        if draw.random() < 0.5:
            example["ctx"] = a + " " + b
        yield example


def compare_lines(name, program, folder, count, vocabulary, encode, *options):
    model = Model(context=96, vocabulary=vocabulary, seed=4)
    model.write(folder / "model.bin")
    lines, examples = [], []
    for each in text_examples(count):
        lines.append(json.dumps(each))
        examples.append((each["label"], encode(each["ctx_a"] + " " + each["ctx_b"]),
                         [encode(" " + ending) for ending in each["endings"]],
                         [len(ending.encode()) for ending in each["endings"]]))
    (folder / "choices.jsonl").write_text("\n".join(lines) + "\n")
    found = evaluate(program, folder / "model.bin", "--hellaswag", folder / "choices.jsonl", *options)
    compare_choices(name, found["hellaswag"], model, examples)
    return model


def compare_text(name, program, folder, model, encode, separator, *options):
    """Mean loss and bits per byte of two documents, by the definition."""
    documents = [" ".join(WORDS * 9), "\n".join(WORDS * 4) + "\n"]
    (folder / "text").mkdir(exist_ok=True)
    for i, document in enumerate(documents):
        (folder / "text" / f"{i}.txt").write_text(document)
    size = sum(len(document.encode()) for document in documents)
    for stride in (model.context, model.context // 3):
        total = count = 0
        for document in documents:
            tokens = [separator] + encode(document)
            done = begin = 0
            while done < len(tokens) - 1:
                end = min(begin + model.context, len(tokens) - 1)
                total += model.losses(tokens[begin:end + 1])[done - begin:].sum()
                count += end - done
                done, begin = end, begin + stride
        found = evaluate(program, folder / "model.bin", "--data", folder / "text",
                         "--stride", stride, *options)["data"]
        require((found["tokens"], found["bytes"]) == (count, size),
                f"{name}: wanted {count} tokens of {size} bytes, got {found}")
        require(np.isclose(found["loss"], total / count, rtol=TOLERANCE), f"{name}: loss")
        require(np.isclose(found["bits_per_byte"], total / np.log(2) / size, rtol=TOLERANCE),
                f"{name}: bits per byte")
        print(f"{name}, stride {stride}: {count} tokens of {size} bytes, loss {found['loss']:.6f}, "
              f"wanted {total / count:.6f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gpt2_eval")
    parser.add_argument("--tokenizer")
    parser.add_argument("--examples", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        compare_llm_c_form(options.gpt2_eval, folder, options.examples)

        def as_bytes(text):
            return list(text.encode())

        model = compare_lines("lines of JSON, bytes", options.gpt2_eval, folder, options.examples,
                              256, as_bytes)
        compare_text("text, bytes", options.gpt2_eval, folder, model, as_bytes, 0)
        if options.tokenizer:
            import tokenizers

            words = tokenizers.Tokenizer.from_file(options.tokenizer)

            def as_tokens(text):
                return words.encode(text).ids

            of_file = ("--tokenizer", options.tokenizer)
            model = compare_lines("lines of JSON, tokenizer", options.gpt2_eval, folder,
                                  options.examples, words.get_vocab_size(), as_tokens, *of_file)
            compare_text("text, tokenizer", options.gpt2_eval, folder, model, as_tokens,
                         words.token_to_id("<|endoftext|>"), *of_file)
    print("equal")


if __name__ == "__main__":
    main()
