/// @file
/// The kernels of causal_product.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// One head's matrices, or those of the first head of all.
struct score_matrices {
  float* out;      ///< (T, T)
  const float* q;  ///< (T, HS)
  const float* k;  ///< (T, HS)
};

/// A square tile of one head's scores, from row `row` and column `column` on.
struct score_tile {
  score_matrices head;
  std::int64_t row;
  std::int64_t column;
};

/// Calls `body(tile)` for the tiles of this block, also for those above the diagonal: they need no
/// products, but get zeros. They lie between the others, so that their blocks write while others
/// compute.
template <int Size, class Body>
__device__ __forceinline__ void for_each_score_tile(score_matrices all, attention_shape shape,
                                                    Body body) {
  const std::int64_t T = shape.sequence;
  const std::int64_t in_row = (T + Size - 1) / Size;
  const std::int64_t in_head = in_row * in_row;
  const std::int64_t tiles = shape.batch * shape.heads * in_head;
  for (std::int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
    const std::int64_t h = i / in_head, within = i % in_head;
    const std::int64_t vectors = h * T * shape.head_size;
    body(score_tile{{all.out + h * T * T, all.q + vectors, all.k + vectors},
                    within / in_row * Size,
                    within % in_row * Size});
  }
}

// ---- a float at a time ----

template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    causal_product_naive_kernel(score_matrices a, attention_shape shape) {
  const std::int64_t T = shape.sequence, HS = shape.head_size;
  const std::int64_t scores = shape.batch * shape.heads * T * T;
  for (std::int64_t i = device::thread_in_grid(); i < scores; i += device::threads_in_grid()) {
    const std::int64_t row = i / T, s = i % T;
    const std::int64_t h = row / T, t = row % T;
    float sum = 0.0f;
    if (s <= t) {
      const float* q = a.q + row * HS;
      const float* k = a.k + (h * T + s) * HS;
      for (std::int64_t d = 0; d < HS; ++d) sum += q[d] * k[d];
    }
    a.out[i] = sum;
  }
}

/// Sets to 0 what a dense product left above the diagonal.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    clear_above_diagonal_kernel(float* out, std::int64_t rows, std::int64_t sequence) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (std::int64_t s = row % sequence + 1 + threadIdx.x; s < sequence; s += blockDim.x) {
      out[row * sequence + s] = 0.0f;
    }
  }
}

/// A thread for each score of a tile of Size x Size. Features come Size at a time into shared
/// memory: each float that is loaded serves the Size scores of its row or column.
template <int Size>
__global__ void __launch_bounds__(Size* Size)
    causal_product_shared_kernel(score_matrices all, attention_shape shape) {
  __shared__ float q[Size][Size];
  __shared__ float k[Size][Size + 1];  // read by columns: the padding spreads them over the banks
  const std::int64_t T = shape.sequence, HS = shape.head_size;
  const int x = static_cast<int>(threadIdx.x) % Size, y = static_cast<int>(threadIdx.x) / Size;
  for_each_score_tile<Size>(all, shape, [&](const score_tile& tile) {
    const auto load = [&](const float* vectors, std::int64_t position, std::int64_t d) {
      return position < T && d < HS ? vectors[position * HS + d] : 0.0f;
    };
    const bool is_visible = tile.column <= tile.row;
    float sum = 0.0f;
    for (std::int64_t d = 0; is_visible && d < HS; d += Size) {
      __syncthreads();  // until nobody reads the features before these
      q[y][x] = load(tile.head.q, tile.row + y, d + x);
      k[y][x] = load(tile.head.k, tile.column + y, d + x);
      __syncthreads();
      for (int i = 0; i < Size; ++i) sum += q[y][i] * k[x][i];
    }
    const std::int64_t t = tile.row + y, s = tile.column + x;
    if (t < T && s < T) tile.head.out[t * T + s] = s <= t ? sum : 0.0f;
  });
}

// ---- 8 x 8 scores in registers ----

/// Tiles of 128 x 128 scores; each of 256 threads sums 8 x 8 of them in registers.
///
/// Sixteen floats from shared memory feed 64 multiplications, so that the multipliers are busy and
/// not the memory. A chunk of 32 features of both operands lies in shared memory with the features
/// outermost: a thread then reads one feature of four rows as one pack.
///
///                      columns 4x..4x+3     64+4x..64+4x+3
///     rows 4y..4y+3         4 x 4                4 x 4          x = thread % 16
///     rows 64+4y..          4 x 4                4 x 4          y = thread / 16
inline constexpr int score_tile_size = 128;
inline constexpr int score_tile_threads = 256;
inline constexpr int score_tile_features = 32;

/// A chunk of one operand. With 4 floats of padding a warp that stores 16 positions by two packs
/// hits 32 different banks, for each float of the packs.
using score_operand = float[score_tile_features][score_tile_size + 4];

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
  for (int packs = 0; packs < score_tile_features / 4; packs += 2) {
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
  return 4 * group + (i < 4 ? i : score_tile_size / 2 + i - 4);
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
__global__ void __launch_bounds__(score_tile_threads, 2)
    causal_product_register_kernel(score_matrices all, attention_shape shape) {
  __shared__ __align__(16) score_operand q, k;
  const int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
  for_each_score_tile<score_tile_size>(all, shape, [&](const score_tile& tile) {
    float sums[8][8] = {};
    const std::int64_t features = tile.column <= tile.row ? shape.head_size : 0;
    for (std::int64_t feature = 0; feature < features; feature += score_tile_features) {
      __syncthreads();  // until nobody reads the features before these
      load_score_operand<Width>(q, tile.head.q, tile.row, feature, shape);
      load_score_operand<Width>(k, tile.head.k, tile.column, feature, shape);
      __syncthreads();
#pragma unroll 4
      for (int f = 0; f < score_tile_features; ++f) {
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
