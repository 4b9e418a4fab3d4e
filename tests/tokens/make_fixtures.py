#!/usr/bin/env python3
"""Trains a byte-level BPE as GPT-2's and writes it in each form in which GPT-2's is passed on.

    make_fixtures.py OUT                               # the tiny one, from the text below
    make_fixtures.py OUT --size 50256 --text PATH...   # from files and folders

Needs `tokenizers` (pip install tokenizers). The tiny one is tests/tokens/fixtures.
"""
import argparse
import base64
import json
import os
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from texts import texts_of

END_OF_TEXT = "<|endoftext|>"
TINY_TEXT = """The tokens of a text are the pieces that a model reads. A piece is a word with the space
before it, a number, or a run of other signs; the pieces that come often become tokens, and the ones
that don't are put together from smaller tokens. It's the reader's choice how many there are: they'll
be few here, and I'd say we've enough of them when the most common words, the, and, that, there, of,
are one token each. In the end all of them are bytes, 256 of them, so that no text is unknown.

    for (int i = 0; i < count; ++i) {
        sum += values[i] * 0.5f;
    }

1 12 123 1234 2024 2025 100 1000 10000; --- === ### ... !!! ???
Les mots français ont des accents: é, è, ê, à, ç. Grüße aus Köln, über Straßen und Wälder.
Привет, как дела? Токены и слова, слова и токены. 日本語の文字、日本の言葉。 🙂🙂
"""


def byte_letters():
    """GPT-2's writing of bytes as letters: those that can be seen as they are, others from 256."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in seen}
    for b in range(256):
        letters.setdefault(b, chr(256 + len(letters) - len(seen)))
    return letters


def train(texts, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([END_OF_TEXT])
    return json.loads(tokenizer.to_str())


def write_text(folder, name, lines):
    with open(os.path.join(folder, name), "w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)


def write_json(folder, name, value, **options):
    with open(os.path.join(folder, name), "w", encoding="utf-8", newline="\n") as file:
        json.dump(value, file, ensure_ascii=False, **options)


def write_forms(folder, saved):
    model = saved["model"]
    vocabulary, merges = model["vocab"], [tuple(merge) for merge in model["merges"]]
    letters = byte_letters()
    byte_of = {letter: byte for byte, letter in letters.items()}
    ranks = [f"{base64.b64encode(bytes(byte_of[c] for c in token)).decode()} {rank}"
             for token, rank in sorted(vocabulary.items(), key=lambda item: item[1])]
    vocabulary[END_OF_TEXT] = saved["added_tokens"][0]["id"]  # GPT-2's files have it there, too
    os.makedirs(folder, exist_ok=True)
    write_json(folder, "tokenizer_pairs.json", saved, indent=1)
    model["merges"] = [" ".join(merge) for merge in merges]
    write_json(folder, "tokenizer.json", saved, indent=1)
    write_json(folder, "vocab.json", vocabulary)
    write_json(folder, "encoder.json", vocabulary)
    lines = ["#version: 0.2", *model["merges"]]
    write_text(folder, "merges.txt", lines)
    write_text(folder, "vocab.bpe", lines)
    write_text(folder, "ranks.tiktoken", ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--size", type=int, default=356, help="tokens without end of text")
    parser.add_argument("--text", nargs="+", help="files and folders to train on")
    arguments = parser.parse_args()
    texts = texts_of(arguments.text) if arguments.text else [TINY_TEXT]
    saved = train(texts, arguments.size)
    if len(saved["model"]["vocab"]) != arguments.size:
        sys.exit(f"the text gives {len(saved['model']['vocab'])} tokens, not {arguments.size}")
    write_forms(arguments.out, saved)


if __name__ == "__main__":
    main()
