/// @file
/// Errors of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include <llmc/error.hpp>

namespace gpt2_trainer {

inline void check_cuda(const std::string& action, cudaError_t code) {
  if (code == cudaSuccess) return;
  throw llmc::cuda_error("gpt2_trainer: " + action + " failed: " + cudaGetErrorString(code),
                         static_cast<int>(code));
}

}  // namespace gpt2_trainer
