/// @file
/// What the files of a tokenizer say: which bytes each token stands for, and what merges into what.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpt2_trainer {

/// Two tokens that merge into one wherever they meet.
struct token_merge {
  std::int32_t left;
  std::int32_t right;
  std::int32_t merged;
};

/// A token that stands for itself, such as `<|endoftext|>`, and not for a piece of text.
struct special_token {
  std::string text;
  std::int32_t id;
};

/// The tokens of a byte-level BPE. Each of the 256 bytes is a token by itself.
struct vocabulary {
  std::vector<std::string> tokens;  ///< by id: the bytes, or a special token's text
  std::vector<token_merge> merges;  ///< the first applies first; none: tokens can only be decoded
  std::vector<special_token> specials;
  std::optional<std::int32_t> end_of_text;  ///< the special token between documents
  std::vector<std::string> notes = {};      ///< what the reader has to say to the user
};

}  // namespace gpt2_trainer
