#!/usr/bin/env python3
"""Compares llmc's tokenizer with tiktoken and tokenizers: every token, and the speed.

    pip install tiktoken==0.14.0 tokenizers==0.23.1 numpy
    ninja -C build tokenizer_check
    compare_tokenizers.py build/tests/tokens/tokenizer_check VOCABULARY [--text PATH...]

VOCABULARY is a folder that make_fixtures.py wrote. PATHs are files and folders; without them the
licences, documentation, manual pages, Python and Perl libraries and headers of the machine.
"""
import argparse
import base64
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import numpy
import tiktoken
from tokenizers import Tokenizer

from texts import texts_of

PATHS = ["/usr/share/common-licenses", "/usr/share/doc", "/usr/share/man", "/usr/lib/python3",
         "/usr/share/perl", "/usr/include"]
GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


class Ours:
    def __init__(self, program, vocabulary):
        self.program, self.vocabulary = program, vocabulary
        self.folder = tempfile.TemporaryDirectory()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def encode(self, documents):
        """The tokens of each document (bytes), and what the program measured."""
        with open(self.path("documents"), "wb") as file:
            for document in documents:
                file.write(len(document).to_bytes(8, "little"))
                file.write(document)
        printed = subprocess.run([self.program, self.vocabulary, self.path("documents"),
                                  self.path("tokens")], check=True, capture_output=True, text=True)
        measured = json.loads(printed.stdout)
        if not measured["same"]:
            sys.exit("decoded text differs from the text")
        with open(self.path("tokens"), "rb") as file:
            data = file.read()
        tokens, at = [], 0
        while at < len(data):
            count = int.from_bytes(data[at:at + 8], "little")
            tokens.append(numpy.frombuffer(data, numpy.int32, count, at + 8))
            at += 8 + 4 * count
        return tokens, measured

    def classes(self):
        subprocess.run([self.program, "--classes", self.path("classes")], check=True)
        return numpy.fromfile(self.path("classes"), numpy.uint8)


def read_tiktoken(vocabulary):
    with open(os.path.join(vocabulary, "ranks.tiktoken"), encoding="ascii") as file:
        ranks = {base64.b64decode(token): int(rank) for token, rank in map(str.split, file)}
    return tiktoken.Encoding("compared", pat_str=GPT2, mergeable_ranks=ranks,
                             special_tokens={"<|endoftext|>": len(ranks)})


def read_tokenizers(vocabulary):
    """Without its special token, so that this is text in a text, as it is elsewhere."""
    with open(os.path.join(vocabulary, "tokenizer.json"), encoding="utf-8") as file:
        saved = json.load(file)
    saved["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(saved))


def timed(work):
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def check_same(what, texts, ours, theirs):
    for text, a, b in zip(texts, ours, theirs, strict=True):
        if len(a) != len(b) or (a != numpy.asarray(b, numpy.int32)).any():
            sys.exit(f"{what} differs in {text[:200]!r}: {a.tolist()[:40]} and {b[:40]}")


def context_texts():
    """Every code point alone, after a space, between letters, doubled, among spaces and others.

    Most are many in a text, with a sign between them; all spaces are by themselves, too.
    """
    forms = ["{0}", " {0}", "a{0}b", "{0}{0}", "1{0}2", "!{0}?", "{0} x", "a {0}", "\n{0}",
             "{0}'s", "'{0}", "  {0}  ", "a{0}\n", " {0} {0}"]
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    for form in forms:
        for at in range(0, len(codes), 64):
            yield "\n.\n".join(form.format(chr(code)) for code in codes[at:at + 64])
        for code in (*range(0x300), 0x1680, 0x180E, *range(0x2000, 0x2070), 0x3000, 0xFEFF):
            yield form.format(chr(code))


def random_texts(count):
    """Short texts of what splitters get wrong, and random bytes that are UTF-8."""
    random.seed(1)
    parts = [" ", "  ", "\n", "\t", "'", "'s", "'ll", "'LL", "a", "word", "1", "23", ".", "-->",
             "\u00a0", "\u2029", "\u180e", "\u3000", "\u00e9", "e\u0301", "\u4e2d", "\U0001f642",
             "\r\n", "\0", "<|endoftext|>", "\u0660", "\u00bd"]
    for _ in range(count):
        yield "".join(random.choices(parts, k=random.randint(0, 12)))
    for _ in range(count // 10):
        yield bytes(random.choices(range(256), k=200)).decode("utf-8", "ignore")


def bad_texts(count):
    """Bytes that are not UTF-8."""
    random.seed(2)
    for _ in range(count):
        yield bytes(random.choices(range(256), k=random.randint(1, 100)))
    for text in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"a\xf4\x90\x80\x80b", b"\xe2\x82", b" \x80"):
        yield text


def long_texts():
    random.seed(3)
    yield "one letter", "a" * 1000000
    yield "no space", "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=1000000))
    yield "no space, real", re.sub("[^a-z]", "", " ".join(texts_of(PATHS[:1]))) * 5
    yield "spaces", " " * 1000000
    yield "signs", "-" * 1000000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="tokenizer_check")
    parser.add_argument("vocabulary")
    parser.add_argument("--text", nargs="+", default=PATHS)
    parser.add_argument("--megabytes", type=float, default=60, help="of real text, at most")
    arguments = parser.parse_args()
    ours = Ours(arguments.program, arguments.vocabulary)
    openai, face = read_tiktoken(arguments.vocabulary), read_tokenizers(arguments.vocabulary)

    def compare(what, texts, with_face=True):
        texts = list(texts)
        data = [text.encode() for text in texts]
        size = sum(map(len, data)) / 1e6
        tokens, measured = ours.encode(data)
        theirs, openai_seconds = timed(lambda: [openai.encode_ordinary(text) for text in texts])
        check_same(f"{what}: tiktoken", texts, tokens, theirs)
        seconds = {"llmc": measured["encode"], "tiktoken": openai_seconds}
        if with_face:
            theirs, seconds["tokenizers"] = timed(lambda: [face.encode(text).ids for text in texts])
            check_same(f"{what}: tokenizers", texts, tokens, theirs)
        rates = ", ".join(f"{name} {size / value:.2f}" for name, value in seconds.items())
        print(f"{what}: {size:.2f} MB in {len(texts)} texts, {sum(map(len, tokens))} tokens, same; "
              f"MB/s: {rates}; decoding {size / measured['decode']:.0f}, "
              f"copying {size / measured['copy']:.0f}", flush=True)

    print(f"tiktoken {tiktoken.__version__}, vocabulary of {openai.n_vocab}")
    compare("random texts", random_texts(20000))
    ours.encode(list(bad_texts(20000)))
    print("bytes that are not UTF-8: 20006 texts come back as they were")
    compare("every code point in 14 contexts", context_texts())
    # The machine's texts in turn from each path, so that all kinds come in.
    iterators, real, size = [texts_of([path]) for path in arguments.text], [], 0
    while iterators and size < arguments.megabytes * 1e6:
        for iterator in list(iterators):
            text = next(iterator, None)
            if text is None:
                iterators.remove(iterator)
            else:
                real.append(text)
                size += len(text.encode())
    compare("real text", real)
    for what, text in long_texts():
        # Time grows with the square of the length in the others, so they have a part only.
        rate = ours.encode([text.encode()])[1]["encode"]
        print(f"{what}: {len(text) / 1e6 / rate:.2f} MB/s on {len(text) / 1e6:.2f} MB; a part:")
        compare("    " + what, [text[:20000]])


if __name__ == "__main__":
    main()
