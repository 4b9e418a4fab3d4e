/// @file
/// llmc's launchers as a backend. Needs no CUDA to include.
#pragma once

#include <memory>
#include <string>

#include <llmc/types.hpp>

#include "gpt2/machine/backend.hpp"

namespace gpt2_trainer {

/// The backend on the current CUDA device; or null, and `reason` says in one line why there is none
/// (no driver, no device, or none that this program was built for).
std::unique_ptr<backend<float>> make_cuda_backend(llmc::precision arithmetic, std::string& reason);

}  // namespace gpt2_trainer
