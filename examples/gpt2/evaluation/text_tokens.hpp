/// @file
/// How text and the tokens of a model belong together: by a tokenizer, or each byte is a token.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpt2/data/corpus.hpp"
#include "gpt2/data/token_source.hpp"
#include "gpt2/evaluation/perplexity.hpp"
#include "gpt2/tokens/tokenizer.hpp"

namespace gpt2_trainer {

class text_tokens {
 public:
  /// Each byte is a token, and byte 0 stands between documents.
  text_tokens() = default;
  explicit text_tokens(tokenizer words) : words_(std::move(words)) {}

  std::vector<std::int32_t> encode(std::string_view text) const;
  std::string decode(const std::vector<std::int32_t>& tokens) const;

  /// What stands between documents, and before the first; a vocabulary may lack it.
  std::optional<std::int32_t> separator() const;
  /// For a model of so many tokens. What is no text, such as the separator, has no bytes.
  bytes_of_tokens bytes(std::int64_t vocabulary) const;

 private:
  std::optional<tokenizer> words_;
};

/// Each document is a shard, which begins with the separator where there is one.
std::unique_ptr<token_source> make_documents(const text_corpus& corpus, const text_tokens& text);

}  // namespace gpt2_trainer
