/// @file
/// Where a run may write.
#pragma once

#include "gpt2_trainer/setup.hpp"

namespace gpt2_trainer {

/// Throws an input_error unless everything that the run will write can be written, and harms
/// nothing that is there.
void require_outputs(const run_setup& setup);

}  // namespace gpt2_trainer
