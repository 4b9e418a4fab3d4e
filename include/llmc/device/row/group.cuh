/// @file
/// A group: the threads that share a row. It is one thread, a warp or a block; code written over
/// groups serves all three.
///
///     __shared__ typename Group::storage storage;
///     const Group group(storage);
///     group.for_each_row(rows, [&](std::int64_t row) { ... group.sum(share) ... });
///
/// All threads of a group must call `sum` and `max`, and all of them get the result.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>
#include <type_traits>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/row/reduce.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

enum class sharing { thread, warp, block };

/// The groups of one kind in blocks of `BlockSize` threads, or of any number of whole warps.
template <sharing By, int BlockSize>
class row_group {
  using reducer = block_reducer<float, BlockSize>;
  struct nothing {};

 public:
  static constexpr bool is_warp = By == sharing::warp;
  static constexpr bool is_block = By == sharing::block;

  /// What a group needs of shared memory.
  using storage = std::conditional_t<is_block, typename reducer::storage, nothing>;

  __device__ __forceinline__ explicit row_group(storage& memory) : memory_(&memory) {}
  __device__ __forceinline__ row_group() {
    static_assert(!is_block, "a block needs storage for its sums");
  }

  /// Threads of a group, and which of them this is.
  __device__ __forceinline__ static int size() {
    if constexpr (is_block) {
      return block_size();
    } else {
      return is_warp ? warp_size : 1;
    }
  }
  __device__ __forceinline__ static int rank() {
    // With an unsigned remainder the compiler knows that offsets from it are not negative.
    const unsigned thread = threadIdx.x;
    return static_cast<int>(is_block ? thread : is_warp ? thread % warp_size : 0u);
  }
  /// The rank for walks with 64-bit offsets. By way of an int it takes up to 16 registers more.
  __device__ __forceinline__ static std::int64_t worker() {
    const unsigned thread = threadIdx.x;
    return is_block ? thread : is_warp ? thread % warp_size : 0u;
  }
  /// Groups in a block.
  static constexpr int per_block(int block_size) {
    return is_block ? 1 : block_size / (is_warp ? warp_size : 1);
  }

  __device__ __forceinline__ float sum(float value) const { return reduce(value, plus_operator{}); }
  __device__ __forceinline__ float(max)(float value) const {
    return reduce(value, maximum_operator{});
  }

  /// After this and a `sum` or a `max`, other threads may overwrite what a thread read before. In a
  /// block those two are barriers; a warp needs one of its own.
  __device__ __forceinline__ static void finish_reading() {
    if constexpr (is_warp) __syncwarp();
  }

  /// Calls `body(row)` for the rows of this group. The groups of the grid together take each row
  /// once.
  template <class Body>
  __device__ __forceinline__ static void for_each_row(std::int64_t rows, Body body) {
    const unsigned groups = is_block ? 1u : static_cast<unsigned>(block_size() / size());
    const unsigned own = is_block ? 0u : threadIdx.x / static_cast<unsigned>(size());
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * groups;
    for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * groups + own; row < rows;
         row += step) {
      body(row);
    }
  }

 private:
  __device__ __forceinline__ static int block_size() {
    return BlockSize == any_block_size ? static_cast<int>(blockDim.x) : BlockSize;
  }

  template <class Operator>
  __device__ __forceinline__ float reduce(float value, Operator op) const {
    if constexpr (is_block) {
      return reducer(*memory_).reduce(value, op);
    } else if constexpr (is_warp) {
      return warp_reduce(value, op);
    } else {
      return value;
    }
  }

  storage* memory_ = nullptr;
};

template <int BlockSize = any_block_size>
using lone_thread = row_group<sharing::thread, BlockSize>;
template <int BlockSize = any_block_size>
using whole_warp = row_group<sharing::warp, BlockSize>;
template <int BlockSize = any_block_size>
using whole_block = row_group<sharing::block, BlockSize>;

}  // namespace device
LLMC_NAMESPACE_END
