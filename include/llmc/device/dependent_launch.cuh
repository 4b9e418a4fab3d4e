/// @file
/// Two kernels in a row: the second needs the first's results, but may be on the GPU before the
/// first ends, so that its launch costs no time (sm_90 on; elsewhere they run one after the other).
///
/// The first calls allow_next_kernel() where it likes; the second is launched with
/// `launch_config::early` and calls wait_for_previous_kernel() before it touches memory.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cuda_runtime_api.h>

#include <llmc/detail/namespace.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// Whether all code of this build is for architectures that can wait. Code for older ones may run
/// on newer cards, too, and would not wait there. Before CUDA 12.3 graphs could not capture it.
__host__ __device__ constexpr bool has_dependent_launch() {
  bool all_can_wait = CUDART_VERSION >= 12030;
  for (const int architecture : {__CUDA_ARCH_LIST__}) {
    all_can_wait = all_can_wait && architecture >= 900;
  }
  return all_can_wait;
}

/// The next kernel may come as soon as all blocks of this one have called this or ended.
__device__ __forceinline__ void allow_next_kernel() {
  if constexpr (has_dependent_launch()) asm volatile("griddepcontrol.launch_dependents;");
}

/// Waits until the previous kernel has ended and all that it wrote can be seen.
__device__ __forceinline__ void wait_for_previous_kernel() {
  if constexpr (has_dependent_launch()) asm volatile("griddepcontrol.wait;" ::: "memory");
}

}  // namespace device
LLMC_NAMESPACE_END
