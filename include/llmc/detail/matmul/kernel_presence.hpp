/// @file
/// Which kernels were built for a device. Plain C++.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>

#include <llmc/detail/last_error.hpp>
#include <llmc/detail/namespace.hpp>

LLMC_TYPES_BEGIN

namespace products {

/// The most threads in a block of a kernel on the current device; 0 if the kernel was not built for
/// it. For an architecture that lacks what a kernel needs, the kernel is compiled empty, with
/// smaller launch bounds.
inline int most_threads_of(const void* kernel) {
  int most = 0;
  keeping_last_error([&] {
    cudaFuncAttributes attributes{};
    if (cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess) {
      most = attributes.maxThreadsPerBlock;
    } else {
      cudaGetLastError();  // asking was no error of the program's
    }
  });
  return most;
}

/// The answer for one kernel, asked once for each device. The file that has the kernel keeps it. A
/// context could keep it by the kernel's address, but may outlive the library that the kernel is
/// in.
class kernel_presence {
 public:
  /// Whether blocks of that size can be launched on the current device, which is number `device`.
  bool on(int device, const void* kernel, int block_size) {
    const auto place = static_cast<std::size_t>(device);
    if (place >= asked_.size()) return most_threads_of(kernel) >= block_size;
    int answer = asked_[place].load(std::memory_order_relaxed);
    if (answer == 0) {
      answer = 1 + most_threads_of(kernel);
      asked_[place].store(answer, std::memory_order_relaxed);
    }
    return answer > block_size;
  }

 private:
  std::array<std::atomic<int>, 64> asked_{};  ///< 0, or 1 and the threads
};

}  // namespace products

LLMC_TYPES_END
