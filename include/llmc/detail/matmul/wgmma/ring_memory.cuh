/// @file
/// Shared memory of the wgmma kernels whose operands come by bulk copies as they are multiplied.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/mbarrier.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// A ring of stages, each of which holds a chunk of both operands.
template <class Tiles>
class ring_memory {
 public:
  static constexpr int barriers = 2 * Tiles::stages;

  __device__ __forceinline__ ring_memory(std::uint32_t memory, std::uint32_t barrier_memory)
      : memory_((memory + 1023) & ~1023u), barriers_(barrier_memory) {}

  __device__ __forceinline__ std::uint32_t first(int stage) const {
    return memory_ + stage * Tiles::stage_bytes;
  }
  __device__ __forceinline__ std::uint32_t second(int stage) const {
    return first(stage) + Tiles::first_bytes;
  }
  /// Barriers whose phase ends when a stage is filled, and when it may be filled again.
  __device__ __forceinline__ device::mbarrier full(int stage) const {
    return {barriers_ + stage * device::mbarrier::bytes};
  }
  __device__ __forceinline__ device::mbarrier empty(int stage) const {
    return full(Tiles::stages + stage);
  }

  /// By one thread.
  __device__ __forceinline__ void init_barriers() const {
    for (int stage = 0; stage < Tiles::stages; ++stage) {
      full(stage).init(1);
      empty(stage).init(4 * Tiles::consumers);
    }
    device::mbarriers_are_ready();
  }

 private:
  std::uint32_t memory_;
  std::uint32_t barriers_;
};

}  // namespace detail
LLMC_NAMESPACE_END
