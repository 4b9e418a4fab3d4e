/// @file
/// A row that stays in the registers of the threads that share it, so that memory sees each number
/// once however often it is needed; and those threads, a warp or a block.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>
#include <type_traits>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/reduce.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

/// The threads that share a row: each warp of the block has its own, or the whole block has one.
template <int Threads, int BlockSize>
class row_group {
  static_assert(Threads == warp_size || Threads == BlockSize, "a group is a warp or a block");
  struct nothing {};

 public:
  static constexpr int per_block = BlockSize / Threads;
  /// What the group needs of shared memory.
  using storage = std::conditional_t<Threads == warp_size, nothing,
                                     typename block_reducer<float, BlockSize>::storage>;

  __device__ explicit row_group(storage& memory) : memory_(memory) {}

  __device__ int rank() const { return static_cast<int>(threadIdx.x) % Threads; }

  /// All threads of the group must call it, and all of them get the sum.
  __device__ float sum(float value) {
    if constexpr (Threads == warp_size) {
      return warp_sum(value);
    } else {
      return block_reducer<float, BlockSize>(memory_).sum(value);
    }
  }

  /// Calls `body(row)` for the rows of this group: with all groups of the grid, once for each.
  template <class Body>
  __device__ __forceinline__ static void for_each_row(std::int64_t rows, Body body) {
    const std::int64_t groups = static_cast<std::int64_t>(gridDim.x) * per_block;
    for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * per_block +
                            threadIdx.x / static_cast<unsigned>(Threads);
         row < rows; row += groups) {
      body(row);
    }
  }

 private:
  storage& memory_;
};

/// One thread's share of a row of at most Floats * Threads numbers: the packs rank, rank + Threads,
/// and so on; 0 past the end.
template <int Width, int Floats, int Threads>
struct row_registers {
  static constexpr int packs = Floats / Width;

  pack<Width> values[packs] = {};

  /// Calls `body(k, c)` for each pack: `values[k]` begins at column c.
  template <class Body>
  __device__ __forceinline__ static void for_each_pack(int rank, int channels, Body body) {
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      const int c = (rank + k * Threads) * Width;
      if (c < channels) body(k, c);
    }
  }

  /// Pack k of a row; 0 past its end, or where there is no row.
  __device__ __forceinline__ static pack<Width> load_pack(const float* row, int k, int rank,
                                                          int channels) {
    const int c = (rank + k * Threads) * Width;
    pack<Width> result = {};
    if (c < channels && row != nullptr) result = device::load<Width>(row + c);
    return result;
  }
  /// All loads are on their way before the first is waited for.
  __device__ __forceinline__ void load(const float* row, int rank, int channels) {
    for_each_pack(rank, channels, [&](int k, int c) { values[k] = device::load<Width>(row + c); });
  }
  __device__ __forceinline__ void store(float* row, int rank, int channels) const {
    for_each_pack(rank, channels, [&](int k, int c) { device::store(row + c, values[k]); });
  }

  __device__ __forceinline__ void add(const row_registers& other) {
#pragma unroll
    for (int k = 0; k < packs; ++k) {
#pragma unroll
      for (int i = 0; i < Width; ++i) values[k][i] += other.values[k][i];
    }
  }
};

}  // namespace device

namespace detail {

/// Numbers of a row that a thread can keep.
inline constexpr int most_row_floats = 32;

/// Whether `row_registers` can hold such a row with up to `block_size` threads.
constexpr bool fits_row_registers(std::int64_t channels, int block_size) {
  return channels <= std::int64_t{most_row_floats} * block_size;
}

/// Calls `body` with three constants, Width, Floats and Threads, for `row_registers` that hold a
/// row of that many channels: a warp's where these suffice, else a block's. Rows that cannot be
/// read 16 bytes at a time share one size, so that there are fewer kernels.
template <int BlockSize, class Body>
void with_row_registers(bool wide, std::int64_t channels, Body body) {
  const auto with_threads = [&](auto threads) {
    const auto with = [&](auto width, auto floats) { body(width, floats, threads); };
    constexpr device::width_constant<4> pack;
    if (!wide) {
      with(device::width_constant<1>{}, device::width_constant<most_row_floats>{});
    } else if (channels <= 8 * threads()) {
      with(pack, device::width_constant<8>{});
    } else if (channels <= 16 * threads()) {
      with(pack, device::width_constant<16>{});
    } else if (channels <= 24 * threads()) {
      with(pack, device::width_constant<24>{});
    } else {
      with(pack, device::width_constant<most_row_floats>{});
    }
  };
  if (fits_row_registers(channels, device::warp_size)) {
    with_threads(device::width_constant<device::warp_size>{});
  } else if constexpr (BlockSize > device::warp_size) {
    with_threads(device::width_constant<BlockSize>{});
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
