/// @file
/// What the kernels of fused attention in FP32 multiply-adds share, for `precision::ieee` on every
/// architecture: tiles in shared memory, and the two products that attention is made of.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>

#include <llmc/detail/attention/flash_problem.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/pack.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// A block of 128 threads, 8 x 16, owns `Rows` rows of `Features` features and takes `Inner` rows
/// of another tensor at a time. Thread (y, x) makes the scores of rows y + 8i with columns x + 16j,
/// and sums features `width` at a time: width * (x + 16c) and on.
template <int Features, int Rows, int Inner>
struct fma_tiles {
  static constexpr int features = Features;
  static constexpr int rows = Rows;
  static constexpr int inner = Inner;
  static constexpr int threads = 128;
  static constexpr int columns_of_threads = 16;
  static constexpr int rows_of_threads = threads / columns_of_threads;

  static constexpr int own_rows = Rows / rows_of_threads;
  static constexpr int own_columns = Inner / columns_of_threads;
  static constexpr int own_features = Features / columns_of_threads;
  static constexpr int width = own_features % 4 == 0 ? 4 : 2;

  /// Four floats of padding spread rows that are read at once over the banks.
  static constexpr int stride = Features + 4;
  static constexpr int weight_stride = Inner + 4;
  static constexpr int rows_floats = Rows * stride;
  static constexpr int inner_floats = Inner * stride;
  static constexpr int weight_floats = Rows * weight_stride;

  /// `operands` tensors of the block's own rows, one tile of the other, and the weights.
  static constexpr std::size_t shared_bytes(int operands) {
    return sizeof(float) *
           static_cast<std::size_t>(operands * rows_floats + inner_floats + weight_floats);
  }

  using scores = float[own_rows][own_columns];
  using row_sums = float[own_rows][own_features];
};

template <class Tiles>
struct fma_thread {
  int y = static_cast<int>(threadIdx.x) / Tiles::columns_of_threads;
  int x = static_cast<int>(threadIdx.x) % Tiles::columns_of_threads;

  __device__ __forceinline__ int row(int i) const { return y + i * Tiles::rows_of_threads; }
  __device__ __forceinline__ int column(int j) const { return x + j * Tiles::columns_of_threads; }
  __device__ __forceinline__ int feature(int c) const {
    return Tiles::width * (x + c * Tiles::columns_of_threads);
  }
};

/// Calls `visit(i, j)` for all of an array of own rows and `Columns`.
template <int Rows, int Columns, class Visit>
__device__ __forceinline__ void for_each_own(Visit visit) {
#pragma unroll
  for (int i = 0; i < Rows; ++i) {
#pragma unroll
    for (int j = 0; j < Columns; ++j) visit(i, j);
  }
}

/// Copies `rows` rows from `first_row` on into a tile, with all threads; zeros past the ends.
template <class Tiles>
__device__ __forceinline__ void load_tile(const flash_problem& p, float* tile, const float* matrix,
                                          int stride, int first_row, int rows) {
  constexpr int chunks = Tiles::features / 4;
  for (int i = static_cast<int>(threadIdx.x); i < rows * chunks; i += Tiles::threads) {
    const int row = i / chunks;
    const int feature = i % chunks * 4;
    float4 x{};
    if (first_row + row < p.positions) {
      const float* const from = matrix + static_cast<std::int64_t>(first_row + row) * stride;
      x = p.access == row_access::narrow ? load_features<false>(p, from, feature)
                                         : load_features<true>(p, from, feature);
    }
    *reinterpret_cast<float4*>(tile + row * Tiles::stride + feature) = x;
  }
}

/// scores = rows tile^T
template <class Tiles>
__device__ __forceinline__ void fma_rows(typename Tiles::scores& scores, const float* rows,
                                         const float* tile) {
  const fma_thread<Tiles> thread;
  for_each_own<Tiles::own_rows, Tiles::own_columns>([&](int i, int j) { scores[i][j] = 0.0f; });
#pragma unroll 2
  for (int feature = 0; feature < Tiles::features; feature += 4) {
    float4 b[Tiles::own_columns];
#pragma unroll
    for (int j = 0; j < Tiles::own_columns; ++j) {
      b[j] = *reinterpret_cast<const float4*>(tile + thread.column(j) * Tiles::stride + feature);
    }
#pragma unroll
    for (int i = 0; i < Tiles::own_rows; ++i) {
      const float4 a =
          *reinterpret_cast<const float4*>(rows + thread.row(i) * Tiles::stride + feature);
#pragma unroll
      for (int j = 0; j < Tiles::own_columns; ++j) {
        scores[i][j] = fmaf(a.x, b[j].x, scores[i][j]);
        scores[i][j] = fmaf(a.y, b[j].y, scores[i][j]);
        scores[i][j] = fmaf(a.z, b[j].z, scores[i][j]);
        scores[i][j] = fmaf(a.w, b[j].w, scores[i][j]);
      }
    }
  }
}

/// Puts this thread's scores where all threads of the same rows find them.
template <class Tiles>
__device__ __forceinline__ void store_weights(float* weights,
                                              const typename Tiles::scores& scores) {
  const fma_thread<Tiles> thread;
  for_each_own<Tiles::own_rows, Tiles::own_columns>([&](int i, int j) {
    weights[thread.row(i) * Tiles::weight_stride + thread.column(j)] = scores[i][j];
  });
}

/// sums += weights tile
template <class Tiles>
__device__ __forceinline__ void fma_columns(typename Tiles::row_sums& sums, const float* weights,
                                            const float* tile) {
  constexpr int width = Tiles::width;
  constexpr int packs = Tiles::own_features / width;
  const fma_thread<Tiles> thread;
#pragma unroll 2
  for (int k = 0; k < Tiles::inner; k += 4) {
    device::pack<width> b[4][packs];
    for_each_own<4, packs>([&](int r, int c) {
      b[r][c] = device::load<width>(tile + (k + r) * Tiles::stride + thread.feature(c));
    });
#pragma unroll
    for (int i = 0; i < Tiles::own_rows; ++i) {
      const auto a = device::load<4>(weights + thread.row(i) * Tiles::weight_stride + k);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        for_each_own<packs, width>([&](int c, int w) {
          float& sum = sums[i][c * width + w];
          sum = fmaf(a[r], b[r][c][w], sum);
        });
      }
    }
  }
}

/// Stores the sums times `factor(i)` as rows of a head, of which `matrix` is position 0.
template <class Tiles, class Factor>
__device__ __forceinline__ void store_own_rows(const flash_problem& p,
                                               const typename Tiles::row_sums& sums, float* matrix,
                                               int stride, int first_row, Factor factor) {
  const fma_thread<Tiles> thread;
#pragma unroll
  for (int i = 0; i < Tiles::own_rows; ++i) {
    const int row = first_row + thread.row(i);
    if (row >= p.positions) continue;
    float* const to = matrix + static_cast<std::int64_t>(row) * stride;
    for_each_own<Tiles::own_features / Tiles::width, Tiles::width>([&](int c, int w) {
      const int feature = thread.feature(c) + w;
      if (feature < p.head_size) to[feature] = sums[i][c * Tiles::width + w] * factor(i);
    });
  }
}

/// Reduces over the 16 threads that share rows.
template <class Operator>
__device__ __forceinline__ float reduce_row(float value, Operator op) {
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}

}  // namespace detail
LLMC_NAMESPACE_END
