#!/usr/bin/env python3
"""Writes character_class_table.cpp: what tiktoken and tokenizers take for letter, number and space.

    pip install tiktoken==0.14.0 tokenizers==0.23.1
    make_character_classes.py OUT.cpp

Both are asked for every code point, and must agree. Python's own tables (unicodedata, regex) are
of other versions of Unicode. The last line it prints is what tests/tokens/character_class.cpp
wants.
"""
import sys
import zlib

import numpy
import tiktoken
from tokenizers import pre_tokenizers

CODE_POINTS = 0x110000
OTHER, LETTER, NUMBER, SPACE = range(4)
BLOCK = 128  # code points a block
WORD = 32  # code points a word of 64 bits


def text_of_all():
    """Every code point that a text can have: all but the surrogates."""
    return "".join(map(chr, range(0xD800))) + "".join(map(chr, range(0xE000, CODE_POINTS)))


def classes_of_tiktoken():
    ranks = {bytes([b]): b for b in range(256)}
    classes = numpy.zeros(CODE_POINTS, numpy.uint8)
    for value, pattern in ((LETTER, r"\p{L}"), (NUMBER, r"\p{N}"), (SPACE, r"\s")):
        encoding = tiktoken.Encoding("bytes", pat_str=pattern, mergeable_ranks=ranks,
                                     special_tokens={})
        # What a pattern does not match is left out.
        matched = encoding.decode_bytes(encoding.encode_ordinary(text_of_all())).decode()
        classes[[ord(character) for character in matched]] = value
    return classes


def classes_of_tokenizers():
    """Letters join a letter before them, numbers a number, spaces a space, all others a sign."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    classes = numpy.full(CODE_POINTS, OTHER, numpy.uint8)
    for value, before in ((LETTER, "a"), (NUMBER, "1"), (OTHER, "!"), (SPACE, "\n")):
        for code in range(CODE_POINTS):
            if not 0xD800 <= code < 0xE000:
                if len(split.pre_tokenize_str(before + chr(code))) == 1:
                    classes[code] = value
    return classes


def two_levels(classes):
    """The number of the block of each 128 code points, and the words of the different blocks."""
    end = int(numpy.flatnonzero(classes)[-1]) // BLOCK * BLOCK + BLOCK
    numbers, blocks = {}, []
    for block in classes[:end].reshape(-1, BLOCK):
        blocks.append(numbers.setdefault(bytes(block), len(numbers)))
    words = []
    for block in numbers:
        for at in range(0, BLOCK, WORD):
            words.append(sum(value << (2 * i) for i, value in enumerate(block[at:at + WORD])))
    return end, blocks, words


def lines(values, form, a_line):
    return "\n".join("    " + " ".join(form(value) + "," for value in values[at:at + a_line])
                     for at in range(0, len(values), a_line))


def source(end, blocks, words):
    return f"""// Written by make_character_classes.py from tiktoken {tiktoken.__version__}; not by hand.
#include "gpt2/tokens/character_class.hpp"

namespace gpt2_trainer::character_tables {{

static_assert(end == {end:#x});
// clang-format off

const std::uint8_t blocks[end / 128] = {{
{lines(blocks, "{}".format, 24)}
}};

const std::uint64_t words[] = {{
{lines(words, "0x{:x}".format, 5)}
}};

}}  // namespace gpt2_trainer::character_tables
"""


def main():
    classes = classes_of_tiktoken()
    differ = numpy.flatnonzero(classes != classes_of_tokenizers())
    if len(differ):
        sys.exit(f"tiktoken and tokenizers differ in {len(differ)} code points, first {differ[0]:#x}")
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write(source(*two_levels(classes)))
    counts = numpy.bincount(classes, minlength=4)
    print(f"letters {counts[LETTER]}, numbers {counts[NUMBER]}, spaces {counts[SPACE]}, "
          f"CRC-32 of all classes {zlib.crc32(classes.tobytes()):#010x}")


if __name__ == "__main__":
    main()
