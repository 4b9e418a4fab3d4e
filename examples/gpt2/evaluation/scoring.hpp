/// @file
/// What a model thinks of given tokens: the loss of each, in batches of rows of any lengths.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "gpt2/model/gpt2.hpp"

namespace gpt2_trainer {

/// Tokens that a model sees at a time. Those from `first` on are scored: each is predicted from all
/// before it, so `first` is at least 1.
struct scored_row {
  std::vector<std::int32_t> tokens;
  std::int64_t first;

  std::int64_t scored() const { return static_cast<std::int64_t>(tokens.size()) - first; }
};

/// Asks `next` for rows until it has none, and tells `use` the losses of each row's scored tokens,
/// in order. `batch` rows are computed at a time, the shorter ones filled up behind their end,
/// which no token before it sees: the losses do not depend on what is in a batch together.
template <class Real>
void score_rows(gpt2<Real>& model, std::int64_t batch,
                const std::function<std::optional<scored_row>()>& next,
                const std::function<void(const scored_row&, const Real* losses)>& use);

}  // namespace gpt2_trainer
