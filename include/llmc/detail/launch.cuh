/// @file
/// The one way in which llmc launches a kernel, and what goes with it: grid sizes and the choice of
/// access width.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/last_error.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/dependent_launch.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/error.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

inline void check_cuda(const char* function, const char* action, cudaError_t code) {
  if (code == cudaSuccess) return;
  throw cuda_error(std::string(function) + ": " + action + " failed: " + cudaGetErrorString(code) +
                       " (" + cudaGetErrorName(code) + ")",
                   static_cast<int>(code));
}

inline int current_device(const char* function) {
  int device = 0;
  check_cuda(function, "cudaGetDevice", cudaGetDevice(&device));
  return device;
}

inline int device_attribute(const char* function, cudaDeviceAttr attribute) {
  int value = 0;
  check_cuda(function, "cudaDeviceGetAttribute",
             cudaDeviceGetAttribute(&value, attribute, current_device(function)));
  return value;
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// Whether a kernel may be launched with that block size; used by the launchers' static_asserts.
constexpr bool is_block_size(int block_size) {
  return block_size >= 32 && block_size <= 1024 && block_size % 32 == 0;
}

/// Lets a kernel have that much dynamic shared memory. The limit belongs to the kernel on this
/// device, and all host threads share it. So it is set once, to the most there is, and never
/// lowered: another thread's larger launch would fail.
inline void allow_dynamic_shared_memory(const char* function, const void* kernel,
                                        std::size_t bytes) {
  constexpr std::size_t without_asking = 40 * 1024;  // of 48 KiB, which the static memory shares
  if (bytes <= without_asking) return;
  keeping_last_error([&] {
    cudaFuncAttributes attributes{};
    check_cuda(function, "cudaFuncGetAttributes", cudaFuncGetAttributes(&attributes, kernel));
    if (static_cast<std::size_t>(attributes.maxDynamicSharedSizeBytes) >= bytes) return;
    const int limit = device_attribute(function, cudaDevAttrMaxSharedMemoryPerBlockOptin);
    check_cuda(function, "asking for dynamic shared memory",
               cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    limit - static_cast<int>(attributes.sharedSizeBytes)));
  });
}

struct launch_config {
  const char* function;  ///< named in the error
  std::int64_t blocks;   ///< capped at what grid.x takes: kernels stride over the rest
  int block_size;
  std::size_t shared_bytes = 0;  ///< dynamic shared memory
  cudaStream_t stream;
  bool early = false;  ///< see device/dependent_launch.cuh
};

/// Launches `kernel` and throws llmc::cuda_error if that launch failed. cudaLaunchKernelEx returns
/// the error of this launch alone, so an earlier error of the user's is neither reported as ours
/// nor swallowed. No blocks, no launch.
template <class... Parameters, class... Arguments>
void launch(const launch_config& config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (config.blocks <= 0) return;
  allow_dynamic_shared_memory(config.function, reinterpret_cast<const void*>(kernel),
                              config.shared_bytes);
  constexpr std::int64_t most_blocks = (std::numeric_limits<std::int32_t>::max)();
  cudaLaunchConfig_t attributes{};
  attributes.gridDim =
      dim3(static_cast<unsigned>(config.blocks < most_blocks ? config.blocks : most_blocks));
  attributes.blockDim = dim3(static_cast<unsigned>(config.block_size));
  attributes.dynamicSmemBytes = config.shared_bytes;
  attributes.stream = config.stream;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  attributes.attrs = &early;
  attributes.numAttrs = config.early && device::has_dependent_launch() ? 1 : 0;
  check_cuda(config.function, "kernel launch",
             cudaLaunchKernelEx(&attributes, kernel, static_cast<Parameters>(arguments)...));
}

/// Whether flat arrays that begin at these pointers can be read 16 bytes at a time.
template <class... Pointers>
bool is_16_byte_aligned(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

/// The same for rows of `stride` floats.
template <class... Pointers>
bool is_16_byte_accessible(std::int64_t stride, Pointers... pointers) {
  return stride % 4 == 0 && is_16_byte_aligned(pointers...);
}

/// Calls `body` with device::width_constant<Width>: 4 floats at a time where `wide`, else 1.
template <class Body>
void with_access_width(bool wide, Body body) {
  if (wide) {
    body(device::width_constant<4>{});
  } else {
    body(device::width_constant<1>{});
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
