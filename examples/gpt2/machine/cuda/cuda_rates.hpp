/// @file
/// What the current card reaches. Needs no CUDA to include.
#pragma once

#include <llmc/types.hpp>

#include "gpt2/machine/backend.hpp"

namespace gpt2_trainer {

measured_rates measure_card(llmc::precision products, llmc::precision attention);

}  // namespace gpt2_trainer
