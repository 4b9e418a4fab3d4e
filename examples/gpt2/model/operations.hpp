/// @file
/// What a training step must do at least.
#pragma once

#include <cstdint>

#include "gpt2/machine/backend.hpp"
#include "gpt2/model/config.hpp"

namespace gpt2_trainer {

/// The floating-point operations of a step over this many tokens that any implementation needs.
double model_operations(const gpt2_config& config, std::int64_t tokens, std::int64_t sequence);

/// The least time that a step over this many tokens can take: the larger of its floating-point
/// operations and of the bytes that parameters, gradients and moments must move, each at the
/// hardware's peak. 0 where the peak is not known.
double ideal_seconds(const gpt2_config& config, std::int64_t tokens, std::int64_t sequence,
                     std::int64_t micro_batches, const peak_rates& peak);

}  // namespace gpt2_trainer
