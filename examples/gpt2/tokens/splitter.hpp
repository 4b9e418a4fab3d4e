/// @file
/// Splits text into the pieces within which tokens merge, as GPT-2's pattern does:
///
///     '(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s
///
/// that is: an ending such as 's, or a run of letters, of numbers or of other characters, each with
/// the space before it; or white space. Of white space before a word the last character is left
/// over: to the word if it is a space, else as a piece by itself.
#pragma once

#include <cstddef>

#include "gpt2/tokens/character_class.hpp"

namespace gpt2_trainer {

struct character {
  character_class kind;
  std::size_t length;  ///< in bytes
};

/// The character of the UTF-8 text [at, end), which is not empty. A byte that is not part of a
/// well-formed sequence (Unicode's table 3-7) is a character of its own, of the class `other`.
character character_at(const char* at, const char* end);

/// The end of the first piece of the text [at, end), which is not empty and ends at `end`.
const char* end_of_piece(const char* at, const char* end);

}  // namespace gpt2_trainer
