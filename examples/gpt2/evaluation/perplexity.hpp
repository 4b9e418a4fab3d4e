/// @file
/// How well a model predicts tokens of a source: mean loss, perplexity, bits a byte.
///
/// Every token of a shard but its first is scored, once, whatever batch, sequence and stride are.
/// Window k has the tokens from k * stride on, `sequence` inputs and the last one's target, and
/// scores those that no window before it did. So a scored token is predicted from at least
/// `sequence - stride` tokens before it, and from all of its shard where these are fewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "gpt2/data/token_source.hpp"
#include "gpt2/evaluation/scoring.hpp"

namespace gpt2_trainer {

/// The windows of a source, shard by shard.
class window_walk {
 public:
  /// `stride` is at most `sequence`. The source must outlive the walk.
  window_walk(const token_source& source, std::int64_t sequence, std::int64_t stride)
      : source_(source), sequence_(sequence), stride_(stride) {}

  /// The next window; nothing after the last.
  std::optional<scored_row> next();

 private:
  const token_source& source_;
  std::int64_t sequence_;
  std::int64_t stride_;
  std::size_t shard_ = 0;
  std::int64_t window_ = 0;
};

/// The tokens of a source that are scored.
std::int64_t scored_tokens(const token_source& source);

/// How many bytes of text each token stands for, by id; empty: that is not known.
using bytes_of_tokens = std::vector<std::int64_t>;

struct prediction {
  double loss = 0;  ///< the sum over all scored tokens, in nats
  std::int64_t tokens = 0;
  std::optional<std::int64_t> bytes;  ///< of text that the scored tokens stand for

  double mean_loss() const;
  double perplexity() const;
  /// What the text would take if it were coded by the model. Nothing if there are no bytes.
  std::optional<double> bits_per_byte() const;
};

/// `progress` is told after each window how many tokens are scored.
template <class Real>
prediction predict(gpt2<Real>& model, std::int64_t batch, window_walk windows,
                   const bytes_of_tokens& bytes, const std::function<void(std::int64_t)>& progress);

}  // namespace gpt2_trainer
