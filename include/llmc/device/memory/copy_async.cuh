/// @file
/// Copies from global to shared memory that run beside the computation (cp.async, sm_80 on).
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// Whether this pass compiles for an architecture that has these instructions.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
inline constexpr bool has_copy_async = true;
#else
inline constexpr bool has_copy_async = false;
#endif

__device__ __forceinline__ std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Copies 4 floats between 16-byte aligned addresses, past the first-level cache.
__device__ __forceinline__ void copy_async_4(float* shared, const float* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)),
               "l"(global));
}

/// The same, or 4 zeros and no access to global memory where not `valid`.
__device__ __forceinline__ void copy_async_4(float* shared, const float* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(global), "r"(valid ? 16 : 0));
}

/// One float at any address, or a zero.
__device__ __forceinline__ void copy_async_1(float* shared, const float* global, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(shared)),
               "l"(global), "r"(valid ? 4 : 0));
}

/// copy_async_4 and copy_async_1 where the architecture has them; elsewhere the copy is done when
/// these return.
__device__ __forceinline__ void begin_copy_4(float* shared, const float* global) {
  if constexpr (has_copy_async) {
    copy_async_4(shared, global);
  } else {
    *reinterpret_cast<float4*>(shared) = *reinterpret_cast<const float4*>(global);
  }
}
__device__ __forceinline__ void begin_copy_4(float* shared, const float* global, bool valid) {
  if constexpr (has_copy_async) {
    copy_async_4(shared, global, valid);
  } else {
    *reinterpret_cast<float4*>(shared) =
        valid ? *reinterpret_cast<const float4*>(global) : float4{};
  }
}
__device__ __forceinline__ void begin_copy_1(float* shared, const float* global, bool valid) {
  if constexpr (has_copy_async) {
    copy_async_1(shared, global, valid);
  } else {
    *shared = valid ? *global : 0.0f;
  }
}

/// Closes the group of this thread's copies so far.
__device__ __forceinline__ void commit_copies() {
  asm volatile("cp.async.commit_group;");
}

/// Waits until at most `Pending` groups of this thread are on their way; other threads' copies are
/// visible after a barrier.
template <int Pending = 0>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

/// Waits for all copies that this thread began.
__device__ __forceinline__ void finish_copies() {
  if constexpr (has_copy_async) {
    commit_copies();
    wait_for_copies();
  }
}

}  // namespace device
LLMC_NAMESPACE_END
