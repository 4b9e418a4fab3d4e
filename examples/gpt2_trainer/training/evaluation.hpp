/// @file
/// How a model is looked at while it is trained: validation and samples.
#pragma once

#include "gpt2/files/checkpoint.hpp"
#include "gpt2_trainer/training/session.hpp"

namespace gpt2_trainer {

/// Says the mean loss over the validation data, if there are any. Returns whether it is finite.
/// Like a sample it is given up, after at most one more forward pass, if the run is to stop.
bool validate(session& of);

/// Says how the model continues the prompt.
void sample(session& of);

/// Says how the model of a checkpoint continues the prompt. Writes no file but the log.
run_end sample(const run_options& options, checkpoint from, const stop_request& stop);

}  // namespace gpt2_trainer
