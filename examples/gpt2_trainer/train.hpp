/// @file
/// The training loop.
#pragma once

#include "gpt2/run/stop_request.hpp"
#include "gpt2_trainer/setup.hpp"
#include "gpt2_trainer/training/session.hpp"

namespace gpt2_trainer {

/// Trains, or measures steps if that is asked for, to the last step or until the stop. A training
/// writes a checkpoint of the steps that it did, however it ends. Throws std::runtime_error if
/// data cannot be read any more, if a checkpoint could not be written, if the last step or ten in a
/// row were skipped, or if the model is not finite.
run_end train(run_setup setup, const stop_request& stop);

}  // namespace gpt2_trainer
