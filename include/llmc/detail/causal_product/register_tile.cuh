/// @file
/// The fastest kernel of causal_product: tiles of 128 x 128 scores, of which each of 256 threads
/// sums 8 x 8 in registers.
///
/// Sixteen floats from shared memory feed 64 multiplications, so that the multipliers are busy and
/// not the memory. A chunk of 32 features of both operands lies in shared memory with the features
/// outermost: a thread then reads the four rows that it needs of a feature as one pack.
///
///                      columns 4x..4x+3     64+4x..64+4x+3
///     rows 4y..4y+3         4 x 4                4 x 4          x = thread % 16
///     rows 64+4y..          4 x 4                4 x 4          y = thread / 16
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/causal_product/tile.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

inline constexpr int register_tile_size = 128;
inline constexpr int register_tile_threads = 256;
inline constexpr int register_tile_features = 32;

/// A chunk of one operand. With 4 floats of padding a warp that stores 16 positions by two packs
/// hits 32 different banks, for each float of the packs.
using score_operand = float[register_tile_features][register_tile_size + 4];

/// Positions `first`..`first + 127` and features `feature`..`feature + 31` of a (T, HS) matrix; 0
/// outside of it. A warp has 16 positions and loads two packs of each at a time: 32 bytes, which is
/// what memory sends at once.
template <int Width>
__device__ __forceinline__ void load_score_operand(score_operand& to, const float* from,
                                                   std::int64_t first, std::int64_t feature,
                                                   attention_shape shape) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int p = warp * 16 + lane % 16;
#pragma unroll
  for (int packs = 0; packs < register_tile_features / 4; packs += 2) {
    const int f = (packs + lane / 16) * 4;
    const bool has_position = first + p < shape.sequence;
    const float* const place = from + (first + p) * shape.head_size + feature + f;
    device::pack<4> x = {};
    if constexpr (Width == 4) {
      if (has_position && feature + f < shape.head_size) x = device::load<4>(place);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (has_position && feature + f + i < shape.head_size) x[i] = place[i];
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) to[f + i][p] = x[i];
  }
}

/// Where the eight rows or columns of a thread lie in a tile.
__device__ __forceinline__ int score_place(int group, int i) {
  return 4 * group + (i < 4 ? i : register_tile_size / 2 + i - 4);
}

/// The eight numbers of a feature that a thread multiplies.
__device__ __forceinline__ void load_factors(float (&to)[8], const float* feature, int group) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto x = device::load<4>(feature + score_place(group, 4 * half));
#pragma unroll
    for (int i = 0; i < 4; ++i) to[4 * half + i] = x[i];
  }
}

/// The sums of a thread, and 0 above the diagonal.
template <int Width>
__device__ __forceinline__ void store_scores(const score_tile& tile, const float (&sums)[8][8],
                                             int x, int y, std::int64_t T) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t t = tile.row + score_place(y, i);
    if (t >= T) break;
#pragma unroll
    for (int j = 0; j < 8; j += Width) {
      const std::int64_t s = tile.column + score_place(x, j);
      if (s >= T) continue;
      device::pack<Width> p;
#pragma unroll
      for (int w = 0; w < Width; ++w) p[w] = s + w <= t ? sums[i][j + w] : 0.0f;
      device::store<Width>(tile.head.out + t * T + s, p);
    }
  }
}

/// With Width 4 both T and HS are multiples of 4.
template <int Width>
__global__ void __launch_bounds__(register_tile_threads, 2)
    causal_product_register_kernel(score_matrices all, attention_shape shape) {
  __shared__ __align__(16) score_operand q, k;
  const int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
  for_each_score_tile<register_tile_size>(all, shape, [&](const score_tile& tile) {
    float sums[8][8] = {};
    const std::int64_t features = tile.column <= tile.row ? shape.head_size : 0;
    for (std::int64_t feature = 0; feature < features; feature += register_tile_features) {
      __syncthreads();  // until nobody reads the features before these
      load_score_operand<Width>(q, tile.head.q, tile.row, feature, shape);
      load_score_operand<Width>(k, tile.head.k, tile.column, feature, shape);
      __syncthreads();
#pragma unroll 4
      for (int f = 0; f < register_tile_features; ++f) {
        float a[8], b[8];
        load_factors(a, q[f], y);
        load_factors(b, k[f], x);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
          for (int j = 0; j < 8; ++j) sums[i][j] += a[i] * b[j];
        }
      }
    }
    store_scores<Width>(tile, sums, x, y, shape.sequence);
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
