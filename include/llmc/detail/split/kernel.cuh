/// @file
/// Splitting FP32 numbers into halves, block by block; see split_matrix.hpp.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/detail/split/planes.cuh>
#include <llmc/device/counter.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/split_matrix.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

inline constexpr int split_threads = 256;
inline constexpr int split_warps = split_threads / 32;

/// A thread's 16 numbers of a block of 64 x 64: four neighbours in each of four rows. Thread t has
/// columns 4 (t % 16) to 4 (t % 16) + 3 of the rows t / 16, t / 16 + 16, ...
struct split_share {
  float x[4][4];

  static __device__ __forceinline__ int row(int i) {
    return static_cast<int>(threadIdx.x) / 16 + 16 * i;
  }
  static __device__ __forceinline__ int column() { return static_cast<int>(threadIdx.x) % 16 * 4; }

  /// What is not in the matrix is 0.
  template <int Width>
  __device__ __forceinline__ void load(const float* inp, row_shape shape, std::int64_t first_row,
                                       std::int64_t first_column) {
    const std::int64_t left = shape.channels - first_column - column();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int64_t r = first_row + row(i);
      const float* const from = inp + r * shape.channels + first_column + column();
#pragma unroll
      for (int j = 0; j < 4; j += Width) {
        device::pack<Width> p{};
        if (r < shape.rows && j < left) p = device::load<Width>(from + j);
#pragma unroll
        for (int e = 0; e < Width; ++e) x[i][j + e] = p[e];
      }
    }
  }
};

/// The bits of |x|: they compare as the numbers do, and infinity and NaN are the largest.
__device__ __forceinline__ std::uint32_t size_bits(float x) {
  return __float_as_uint(x) & 0x7fffffffu;
}
__device__ __forceinline__ std::uint32_t most_over_lanes(std::uint32_t x, int from, int to) {
  for (int distance = from; distance < to; distance *= 2) {
    x = (max)(x, __shfl_xor_sync(0xffffffffu, x, distance));
  }
  return x;
}

/// What a block of numbers is like. Found by all threads of a block together.
struct split_facts {
  std::uint32_t most;  ///< size_bits of the largest
  bool keeps_bits;     ///< halves cannot hold it
  bool has_low;
};

/// Where the warps tell each other about their shares.
struct split_exchange {
  uint4 columns[split_warps][16];  ///< the largest number of each column in this warp's rows
  std::uint32_t most[split_warps];
  std::uint32_t least_row[split_warps];  ///< of rows' largest numbers that are not 0, minus 1
  std::uint32_t has_low[split_warps];
};

__device__ __forceinline__ split_facts find_facts(const split_share& share,
                                                  split_exchange& exchange) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  std::uint32_t column_most[4] = {}, least_row = ~0u, most = 0, low_bits = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    std::uint32_t row_most = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t size = size_bits(share.x[i][j]);
      low_bits |= size;
      row_most = (max)(row_most, size);
      column_most[j] = (max)(column_most[j], size);
    }
    row_most = most_over_lanes(row_most, 1, 16);
    most = (max)(most, row_most);
    least_row = (min)(least_row, row_most - 1);
  }
  most = most_over_lanes(most, 16, 32);
  least_row = (min)(least_row, __shfl_xor_sync(0xffffffffu, least_row, 16));
#pragma unroll
  for (int j = 0; j < 4; ++j) column_most[j] = most_over_lanes(column_most[j], 16, 32);
  constexpr std::uint32_t beyond_11_digits = (1u << 13) - 1;
  const bool warp_has_low = __any_sync(0xffffffffu, (low_bits & beyond_11_digits) != 0) != 0;
  if (lane < 16) {
    exchange.columns[warp][lane] =
        make_uint4(column_most[0], column_most[1], column_most[2], column_most[3]);
  }
  if (lane == 0) {
    exchange.most[warp] = most;
    exchange.least_row[warp] = least_row;
    exchange.has_low[warp] = warp_has_low ? 1 : 0;
  }
  __syncthreads();

  bool has_low = false;
  std::uint32_t column_size = 0;
  const int column = static_cast<int>(threadIdx.x) % 64;
#pragma unroll
  for (int w = 0; w < split_warps; ++w) {
    most = (max)(most, exchange.most[w]);
    least_row = (min)(least_row, exchange.least_row[w]);
    has_low = has_low || exchange.has_low[w] != 0;
    column_size =
        (max)(column_size, reinterpret_cast<const std::uint32_t*>(exchange.columns[w])[column]);
  }
  const float least_kept =
      __uint_as_float(most) * power_of_two(-split_scale::kept_exponent);  // NaN: no comparison
  const auto loses = [&](std::uint32_t size_minus_1) {
    return size_minus_1 != ~0u && __uint_as_float(size_minus_1 + 1) < least_kept;
  };
  const bool too_large = most >= __float_as_uint(power_of_two(split_scale::most_exponent));
  const bool lost = too_large || loses(least_row) || loses(column_size - 1);
  return {most, __syncthreads_or(lost ? 1 : 0) != 0, has_low};
}

/// Of lanes 4t to 4t + 3, which have four consecutive elements each in two words: the two words
/// that belong at the lane's place, see split_layout::place.
__device__ __forceinline__ uint2 permute_words(std::uint32_t first, std::uint32_t second) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int from = (lane & ~3) | (2 * (lane & 1));
  const std::uint32_t first_0 = __shfl_sync(0xffffffffu, first, from);
  const std::uint32_t second_0 = __shfl_sync(0xffffffffu, second, from);
  const std::uint32_t first_1 = __shfl_sync(0xffffffffu, first, from + 1);
  const std::uint32_t second_1 = __shfl_sync(0xffffffffu, second, from + 1);
  return (lane & 2) != 0 ? make_uint2(second_0, second_1) : make_uint2(first_0, first_1);
}

/// Splits a thread's share and stores it; a warp writes 128 bytes of two rows at a time.
__device__ __forceinline__ void store_share(const split_planes& to, const split_share& share,
                                            const split_facts& facts, std::int64_t row_block,
                                            std::int64_t column_block) {
  const float factor = facts.keeps_bits ? 0.0f : split_factor(facts.most);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    std::uint32_t high[2], low[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const split_pair pair =
          facts.keeps_bits ? bits_of_pair(share.x[i][2 * j], share.x[i][2 * j + 1])
                           : split_two(share.x[i][2 * j] * factor, share.x[i][2 * j + 1] * factor);
      high[j] = pair.high;
      low[j] = pair.low;
    }
    const std::int64_t row = row_block * split_layout::side + place_of(split_share::row(i));
    const std::int64_t at =
        row * to.stride + column_block * split_layout::side + split_share::column();
    *reinterpret_cast<uint2*>(to.high + at) = permute_words(high[0], high[1]);
    *reinterpret_cast<uint2*>(to.high + to.plane + at) = permute_words(low[0], low[1]);
  }
}

/// A block of threads takes blocks of 64 x 64.
template <int Width>
__global__ void __launch_bounds__(split_threads)
    split_kernel(split_planes to, const float* inp, row_shape shape, std::uint64_t* kept_whole) {
  __shared__ split_exchange exchange;
  const std::int64_t blocks = std::int64_t{to.row_blocks} * to.column_blocks;
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const std::int64_t row_block = block / to.column_blocks;
    const std::int64_t column_block = block % to.column_blocks;
    split_share share;
    share.load<Width>(inp, shape, row_block * split_layout::side,
                      column_block * split_layout::side);
    const split_facts facts = find_facts(share, exchange);
    store_share(to, share, facts, row_block, column_block);
    if (threadIdx.x == 0) {
      to.scales[block] = facts.keeps_bits ? 0.0f : scale_of(facts.most, facts.has_low);
      if (facts.keeps_bits) device::increment(kept_whole);
    }
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
