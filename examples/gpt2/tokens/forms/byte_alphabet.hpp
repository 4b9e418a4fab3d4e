/// @file
/// The characters that stand for bytes in the files of a byte-level BPE, which hold text only.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gpt2_trainer {

/// The bytes for which these characters stand; nothing if one stands for none. A byte that is a
/// visible character of Latin-1 stands for itself, the others are U+0100, U+0101 ... in their
/// order, so the space is U+0120.
std::optional<std::string> bytes_of_alphabet(std::string_view characters);

/// The characters that stand for these bytes.
std::string alphabet_of_bytes(std::string_view bytes);

}  // namespace gpt2_trainer
