/// @file
/// UTF-8 text, whose bytes are tokens: the vocabulary is 256, and byte 0 begins each document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpt2_trainer {

inline constexpr std::int64_t byte_vocabulary = 256;
/// What separates documents. It never occurs in text: a file that holds it is taken as binary.
inline constexpr char document_separator = '\0';

/// Bytes of the longest character of UTF-8.
inline constexpr std::size_t longest_character = 4;

/// Offset of the first byte that is not part of well-formed UTF-8 (no overlong forms, surrogates or
/// code points past U+10FFFF) or is NUL; the size of the text if there is none.
std::size_t valid_text_prefix(std::string_view text);

/// The bytes at the end of the text, at most 3, that are the beginning of a character.
std::size_t unfinished_character(std::string_view text);

/// Text for the terminal: what is not UTF-8 or could steer the terminal becomes U+FFFD, a separator
/// becomes an empty line.
std::string printable(std::string_view text);

}  // namespace gpt2_trainer
