/// @file
/// Between text and the tokens of a model.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpt2/tokens/tokenizer.hpp"

namespace gpt2_trainer {

/// What the tokens of a model are.
class text_codec {
 public:
  /// `name` is "bytes", which only models of 256 tokens have, "numbers": tokens are written as
  /// numbers with spaces between them, or what read_vocabulary reads. Empty: what lies beside the
  /// model, else bytes for a model of 256 tokens. What does not suit the model is an input_error.
  text_codec(const std::string& name, const std::filesystem::path& beside_model,
             std::int64_t vocabulary);

  std::vector<std::int32_t> encode(const std::string& text) const;
  /// Empty for a token of the model that the tokenizer does not have.
  std::string text_of(std::int32_t token) const;
  /// The token between documents, if there is one.
  std::optional<std::int32_t> end_of_text() const;
  /// What the reader of a vocabulary has to say.
  std::vector<std::string> notes() const;

 private:
  bool is_numbers_;
  std::shared_ptr<const tokenizer> words_;  ///< null for bytes and numbers
  std::int64_t vocabulary_;
};

}  // namespace gpt2_trainer
