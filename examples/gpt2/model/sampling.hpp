/// @file
/// Choosing tokens from logits, and continuing a text.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "gpt2/model/random.hpp"

namespace gpt2_trainer {

struct sampling_options {
  double temperature;  ///< logits are divided by it; 0 takes the most likely token
  std::int64_t top_k;  ///< only the k most likely tokens take part; 0: all do
};

/// A token drawn from softmax(logits / temperature). Equal logits count as ordered by token, lowest
/// first. NaN counts as minus infinity. If there are infinite logits, only those take part. Token 0
/// if no token can be drawn.
std::int32_t sample_token(const std::vector<float>& logits, sampling_options options,
                          random_sequence& random);

/// The logits that follow the last of these tokens; none: the text ends here.
using next_logits = std::function<std::vector<float>(const std::vector<std::int32_t>& tokens)>;

/// `length` tokens, or as many as the model wants, that continue the prompt of at least one. The
/// model sees the last `context` tokens.
std::vector<std::int32_t> generate(const next_logits& model,
                                   const std::vector<std::int32_t>& prompt, std::int64_t length,
                                   std::int64_t context, sampling_options options,
                                   random_sequence random);

}  // namespace gpt2_trainer
