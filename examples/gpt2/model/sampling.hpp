/// @file
/// Choosing the next token from a model's logits.
#pragma once

#include <cstdint>
#include <vector>

#include "gpt2/model/random.hpp"

namespace gpt2_trainer {

/// How a token is chosen. The rules, in this order, are those of Hugging Face's `transformers`:
///
/// 1. repetition_penalty p: for each token of the text so far, once however often it is there, a
///    logit below 0 is multiplied by p and any other one divided by it.
/// 2. temperature T: logits are divided by T. 0 takes the token of the greatest logit and ends
/// here.
/// 3. top_k k: only tokens whose logit is at least the k-th greatest take part; 0: all do.
/// 4. top_p p: of those, a token takes part if the tokens before it, the most likely first, have a
///    probability below p together, so the first one always does; 1: all do.
/// 5. The token is drawn from softmax over those that are left.
///
/// Equal logits are ordered by token, the lowest first.
struct sampling_options {
  double temperature = 1;
  std::int64_t top_k = 0;
  double top_p = 1;
  double repetition_penalty = 1;
};

struct likely_token {
  std::int32_t token;
  double probability;
};

/// The tokens that may come next, the most likely first; their probabilities sum to 1. NaN counts
/// as minus infinity. If there are infinite logits, only those take part. Token 0 if none can.
std::vector<likely_token> next_tokens(const std::vector<float>& logits,
                                      const std::vector<std::int32_t>& text,
                                      const sampling_options& options);

/// Draws one of next_tokens; takes one number of the sequence.
std::int32_t sample_token(const std::vector<float>& logits, const std::vector<std::int32_t>& text,
                          const sampling_options& options, random_sequence& random);

}  // namespace gpt2_trainer
