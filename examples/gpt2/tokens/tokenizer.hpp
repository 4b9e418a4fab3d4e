/// @file
/// GPT-2's byte-level BPE: text to tokens and back, as `tokenizers` 0.23 and `tiktoken` 0.14 do it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpt2/tokens/vocabulary.hpp"

namespace gpt2_trainer {

/// Immutable once it is made, so several threads may use one.
class tokenizer {
 public:
  /// An input_error unless the vocabulary is one: every byte a token, merges of tokens that exist.
  explicit tokenizer(vocabulary words);
  ~tokenizer();
  tokenizer(tokenizer&&) noexcept;
  tokenizer& operator=(tokenizer&&) noexcept;

  const vocabulary& words() const;
  /// The number of ids.
  std::int64_t size() const;
  /// False if there are no merges: then `encode` is an input_error.
  bool can_encode() const;

  /// Appends the tokens of the text to `to`. Special tokens that stand in it are ordinary text.
  /// Bytes that are not UTF-8 become tokens, too, and come back as they were.
  void encode(std::string_view text, std::vector<std::int32_t>& to) const;
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// The same, but special tokens that stand in the text are taken as such.
  std::vector<std::int32_t> encode_with_specials(std::string_view text) const;

  /// The bytes of a token; an input_error if there is no such id.
  std::string_view bytes_of(std::int32_t token) const;
  std::string decode(const std::int32_t* tokens, std::size_t count) const;
  std::string decode(const std::vector<std::int32_t>& tokens) const {
    return decode(tokens.data(), tokens.size());
  }

 private:
  struct tables;
  std::unique_ptr<const tables> tables_;
};

}  // namespace gpt2_trainer
