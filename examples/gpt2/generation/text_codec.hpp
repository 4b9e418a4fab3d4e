/// @file
/// Between text and the tokens of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpt2_trainer {

/// What the tokens of a model are.
class text_codec {
 public:
  /// `name` is "bytes", which only models of 256 tokens have, or "numbers": tokens are written as
  /// numbers with spaces between them. Empty: bytes for a model of 256 tokens. Else an input_error.
  text_codec(const std::string& name, std::int64_t vocabulary);

  std::vector<std::int32_t> encode(const std::string& text) const;
  std::string text_of(std::int32_t token) const;
  /// The token between documents, if there is one.
  std::optional<std::int32_t> end_of_text() const;

 private:
  bool is_numbers_;
  std::int64_t vocabulary_;
};

}  // namespace gpt2_trainer
