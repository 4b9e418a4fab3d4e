/// @file
/// The device memory that a matmul_context owns, and checks of CUDA calls. Plain C++.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/error.hpp>

LLMC_TYPES_BEGIN

namespace products {

inline void check_cuda(const char* function, const char* action, cudaError_t code) {
  if (code == cudaSuccess) return;
  throw cuda_error(std::string(function) + ": " + action + " failed: " + cudaGetErrorString(code),
                   static_cast<int>(code));
}

inline void require_not_capturing(const char* function, cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  check_cuda(function, "cudaStreamIsCapturing", cudaStreamIsCapturing(stream, &status));
  if (status != cudaStreamCaptureStatusNone) {
    checks::reject(function, "the stream must not be capturing while products are tuned");
  }
}

struct device_memory_deleter {
  void operator()(void* memory) const { cudaFree(memory); }
};
using device_memory = std::unique_ptr<void, device_memory_deleter>;

/// Memory of the current device, zeroed, so that every stream sees the zeros.
inline device_memory allocate_zeroed(const char* function, const char* what, std::size_t bytes) {
  void* memory = nullptr;
  check_cuda(function, what, cudaMalloc(&memory, bytes));
  device_memory owner(memory);
  check_cuda(function, "zeroing memory", cudaMemset(memory, 0, bytes));
  check_cuda(function, "zeroing memory", cudaStreamSynchronize(nullptr));
  return owner;
}

}  // namespace products

LLMC_TYPES_END
