/// @file
/// A model as what continues texts needs it: tokens in, the next token's logits out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gpt2_trainer {

/// Where the part begins that a model of this context sees of a text of `length` tokens. As long as
/// a text has room it is all of it. After that the part begins at a multiple of half of the
/// context: it moves once in so many tokens, since all that is kept of a text is void when it
/// moves.
inline std::int64_t first_seen(std::int64_t length, std::int64_t context) {
  if (length <= context) return 0;
  const std::int64_t step = std::max<std::int64_t>(context / 2, 1);
  return (length - context + step - 1) / step * step;
}

/// A text's tokens, at least one.
using token_text = std::vector<std::int32_t>;

class text_model {
 public:
  virtual ~text_model() = default;

  /// How many tokens it can see.
  virtual std::int64_t context() const = 0;
  /// How many texts it can go on with at a time.
  virtual std::int64_t batch() const = 0;
  /// The logits that follow each text, of all tokens of the vocabulary; a null text has none. What
  /// they are depends on the text alone. A text that goes on at the same place of the list as in
  /// the call before may take less time.
  virtual std::vector<std::vector<float>> logits(const std::vector<const token_text*>& texts) = 0;
};

}  // namespace gpt2_trainer
