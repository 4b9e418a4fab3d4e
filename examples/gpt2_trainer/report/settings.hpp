/// @file
/// What a run says of itself before its first step.
#pragma once

#include <cstdint>

#include "gpt2/run/report.hpp"
#include "gpt2_trainer/setup.hpp"

namespace gpt2_trainer {

/// `windows` is how many sequences an epoch has.
table settings_table(const run_setup& setup, std::int64_t windows);

}  // namespace gpt2_trainer
