/// @file
/// The optional counter in device memory that tells how many tokens or targets were out of range.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// Adds one; does nothing where `counter` is null. Integer addition has no order, so the atomic
/// does not cost determinism.
__device__ __forceinline__ void increment(std::uint64_t* counter) {
  static_assert(sizeof(std::uint64_t) == sizeof(unsigned long long), "atomicAdd takes the latter");
  if (counter != nullptr) atomicAdd(reinterpret_cast<unsigned long long*>(counter), 1ULL);
}

}  // namespace device
LLMC_NAMESPACE_END
