/// @file
/// Steps that are only timed: --benchmark and --profile.
#pragma once

#include "gpt2_trainer/training/session.hpp"

namespace gpt2_trainer {

/// Times steps by themselves.
run_end benchmark(run_setup setup, const stop_request& stop);

/// Times steps by themselves, and then the calls that steps consist of.
run_end profile(run_setup setup, const stop_request& stop);

}  // namespace gpt2_trainer
