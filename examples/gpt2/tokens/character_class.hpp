/// @file
/// What a character is to GPT-2's splitter: as tiktoken 0.14 and tokenizers 0.23 have it (Unicode
/// 16), which is neither the C library's nor Python's opinion.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpt2_trainer {

enum class character_class : std::uint8_t { other, letter, number, space };

/// Written by make_character_classes.py: two bits a code point, in blocks of 128 code points, of
/// which equal ones are kept once.
namespace character_tables {
constexpr char32_t end = 0x32400;  ///< from here on all are `other`
extern const std::uint8_t blocks[end / 128];
extern const std::uint64_t words[];  ///< four a block
}  // namespace character_tables

inline character_class class_of(char32_t code) {
  if (code >= character_tables::end) return character_class::other;
  const std::size_t word = std::size_t{character_tables::blocks[code / 128]} * 4 + code / 32 % 4;
  return static_cast<character_class>(character_tables::words[word] >> (code % 32 * 2) & 3);
}

}  // namespace gpt2_trainer
