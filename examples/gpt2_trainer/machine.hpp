/// @file
/// The choice between GPU and CPU.
#pragma once

#include <memory>
#include <string>

#include <llmc/types.hpp>

#include "backend.hpp"
#include "options.hpp"

namespace gpt2_trainer {

/// The backend that was asked for. `automatic` is the GPU where there is one and else the CPU; then
/// `note` says why there is no GPU. An input_error if CUDA was asked for and there is none.
std::unique_ptr<backend<float>> choose_machine(backend_choice choice, llmc::precision arithmetic,
                                               std::string& note);

}  // namespace gpt2_trainer
