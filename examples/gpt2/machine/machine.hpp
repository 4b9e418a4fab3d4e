/// @file
/// The choice between GPU and CPU.
#pragma once

#include <array>
#include <memory>
#include <string>

#include <llmc/types.hpp>

#include "gpt2/machine/backend.hpp"

namespace gpt2_trainer {

enum class backend_choice { automatic, cuda, cpu };

constexpr const char* to_string(backend_choice choice) {
  switch (choice) {
    case backend_choice::automatic: return "auto";
    case backend_choice::cuda: return "cuda";
    case backend_choice::cpu: return "cpu";
  }
  return "unknown";
}

inline constexpr std::array backend_choices{backend_choice::automatic, backend_choice::cuda,
                                            backend_choice::cpu};

/// The backend that was asked for. `automatic` is the GPU where there is one; else it is the CPU,
/// and `note` says why there is no GPU. An input_error if CUDA was asked for and there is none.
std::unique_ptr<backend<float>> choose_machine(backend_choice choice, llmc::precision arithmetic,
                                               std::string& note);

}  // namespace gpt2_trainer
