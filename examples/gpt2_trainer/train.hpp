/// @file
/// The training loop.
#pragma once

#include <csignal>

#include "setup.hpp"

namespace gpt2_trainer {

enum class run_end { done, interrupted };

/// Trains, or measures steps if that is asked for, to the last step or until `interrupted` is set.
/// A training that is interrupted finishes its step and writes a checkpoint. Creates the folder of
/// the checkpoints. Throws std::runtime_error if ten steps in a row have a loss or gradient norm
/// that is not finite.
run_end train(run_setup setup, const volatile std::sig_atomic_t& interrupted);

}  // namespace gpt2_trainer
