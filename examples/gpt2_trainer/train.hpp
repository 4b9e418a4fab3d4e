/// @file
/// The training loop.
#pragma once

#include <csignal>
#include <cstdint>

#include "gpt2/machine/backend.hpp"
#include "gpt2/model/config.hpp"
#include "setup.hpp"

namespace gpt2_trainer {

/// The floating-point operations of a step over this many tokens that any implementation needs.
double model_operations(const gpt2_config& config, std::int64_t tokens, std::int64_t sequence);

/// The least time that a step over this many tokens can take: the larger of its floating-point
/// operations and of the bytes that parameters, gradients and moments must move, each at the
/// hardware's peak. 0 where the peak is not known.
double ideal_seconds(const gpt2_config& config, std::int64_t tokens, std::int64_t sequence,
                     std::int64_t micro_batches, const peak_rates& peak);

enum class run_end { done, interrupted };

/// Trains, or measures steps if that is asked for, to the last step, or until `interrupted` is set:
/// then the step is finished and a checkpoint written. Creates the folder of the checkpoints.
/// Throws std::runtime_error if ten steps in a row have a loss or gradient norm that is not finite.
run_end train(run_setup setup, const volatile std::sig_atomic_t& interrupted);

}  // namespace gpt2_trainer
