/// @file
/// What the kernels of fused attention in FP32 multiply-adds share, for `precision::ieee` on every
/// architecture: tiles in shared memory, and the two products that attention is made of.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <llmc/detail/attention/flash/problem.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/copy_async.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/reduce.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// A block of 4 warps owns `Rows` rows of `Features` features, each warp a quarter of them; tiles
/// of `Inner` rows of two other tensors stream past them, one of each in shared memory at a time.
/// Thread (y, x) of a warp makes the scores of the warp's rows y + 4i with columns x + 8j, and sums
/// features 4 * (x + 8c) and on.
///
/// Shared memory would bound these kernels. A warp is 4 x 8 threads, so it reads 4 chunks of 16
/// bytes at once for rows and 8 for columns. Such an access takes four turns, or two if all lanes i
/// and i ^ 1, or all i and i ^ 2, read the same chunk. So bit 0 of a lane's number counts columns
/// and bit 1 rows.
template <int Features, int Rows, int Inner>
struct fma_tiles {
  static constexpr int features = Features;
  static constexpr int rows = Rows;
  static constexpr int inner = Inner;
  static constexpr int warps = 4;
  static constexpr int threads = warps * device::warp_size;
  static constexpr int rows_per_warp = Rows / warps;
  static constexpr int rows_of_threads = 4;  ///< in a warp
  static constexpr int columns_of_threads = 8;
  static constexpr int width = 4;

  static constexpr int own_rows = rows_per_warp / rows_of_threads;
  static constexpr int own_columns = Inner / columns_of_threads;
  static constexpr int own_features = Features / columns_of_threads;
  static constexpr int own_packs = own_features / width;

  /// Padding spreads rows that are accessed at once over the banks: by 16 bytes where they are
  /// read, by 8 floats where each thread writes one.
  static constexpr int stride = Features + 4;
  static constexpr int weight_stride = Inner + 8;
  static constexpr int rows_floats = Rows * stride;
  static constexpr int inner_floats = Inner * stride;
  static constexpr int weight_floats = Rows * weight_stride;

  /// `operands` tensors of the block's own rows, a tile of both others, and the weights.
  static constexpr std::size_t shared_bytes(int operands) {
    return sizeof(float) *
           static_cast<std::size_t>(operands * rows_floats + 2 * inner_floats + weight_floats);
  }

  using scores = float[own_rows][own_columns];
  using row_sums = float[own_rows][own_features];
};

template <class Tiles>
struct fma_thread {
  int lane = static_cast<int>(threadIdx.x) % device::warp_size;
  int x = (lane & 1) + (lane >> 1 & 6);
  int y = (lane >> 1 & 1) + (lane >> 3 & 2);
  int first_row = static_cast<int>(threadIdx.x) / device::warp_size * Tiles::rows_per_warp;

  __device__ __forceinline__ int row(int i) const {
    return first_row + y + i * Tiles::rows_of_threads;
  }
  __device__ __forceinline__ int column(int j) const { return x + j * Tiles::columns_of_threads; }
  __device__ __forceinline__ int feature(int c) const {
    return Tiles::width * (x + c * Tiles::columns_of_threads);
  }
};

/// Calls `visit(i, j)` for every i below `Rows` and j below `Columns`.
template <int Rows, int Columns, class Visit>
__device__ __forceinline__ void for_each_own(Visit visit) {
#pragma unroll
  for (int i = 0; i < Rows; ++i) {
#pragma unroll
    for (int j = 0; j < Columns; ++j) visit(i, j);
  }
}

/// Begins to copy `Rows` rows of `matrix`, from `first_row` on, into a tile, with all threads. Rows
/// past the sequence and features past the head size become zeros.
template <class Tiles, int Rows>
__device__ __forceinline__ void begin_tile(const flash_problem& p, float* tile, vectors matrix,
                                           int first_row) {
  constexpr int lanes = 8;  ///< threads side by side in a row, a chunk of 4 floats each
  constexpr int rows_at_once = Tiles::threads / lanes;
  const int own_row = static_cast<int>(threadIdx.x) / lanes;
  const int own_feature = static_cast<int>(threadIdx.x) % lanes * 4;
  float* const to = tile + own_row * Tiles::stride + own_feature;
  const float* const from =
      matrix.first + static_cast<std::int64_t>(first_row + own_row) * matrix.stride + own_feature;
  const auto for_each_chunk = [&](auto copy) {
    for_each_own<Rows / rows_at_once, Tiles::features / (4 * lanes)>([&](int i, int c) {
      const int row = i * rows_at_once;
      const int feature = c * 4 * lanes;
      copy(to + row * Tiles::stride + feature,
           from + static_cast<std::int64_t>(row) * matrix.stride + feature,
           first_row + own_row + row < p.positions, own_feature + feature);
    });
  };
  if (p.access == row_access::whole && first_row + Rows <= p.positions) {
    for_each_chunk([](float* shared, const float* global, bool, int) {
      device::begin_copy_4(shared, global);
    });
  } else if (p.access != row_access::narrow) {
    for_each_chunk([&](float* shared, const float* global, bool exists, int feature) {
      device::begin_copy_4(shared, global, exists & (feature < p.head_size));
    });
  } else {
    for_each_chunk([&](float* shared, const float* global, bool exists, int feature) {
#pragma unroll 1
      for (int i = 0; i < 4; ++i) {
        device::begin_copy_1(shared + i, global + i, exists & (feature + i < p.head_size));
      }
    });
  }
}

/// Waits until this thread's copies have arrived and all threads have come this far.
__device__ __forceinline__ void wait_for_tiles() {
  device::finish_copies();
  __syncthreads();
}

/// scores = rows tile^T. The loops take an element of a row through all columns before the next
/// element, so it is read from the registers once.
template <class Tiles>
__device__ __forceinline__ void fma_rows(typename Tiles::scores& scores, const float* rows,
                                         const float* tile) {
  const fma_thread<Tiles> thread;
  for_each_own<Tiles::own_rows, Tiles::own_columns>([&](int i, int j) { scores[i][j] = 0.0f; });
#pragma unroll 2
  for (int feature = 0; feature < Tiles::features; feature += 4) {
    device::pack<4> b[Tiles::own_columns];
#pragma unroll
    for (int j = 0; j < Tiles::own_columns; ++j) {
      b[j] = device::load<4>(tile + thread.column(j) * Tiles::stride + feature);
    }
#pragma unroll
    for (int i = 0; i < Tiles::own_rows; ++i) {
      const auto a = device::load<4>(rows + thread.row(i) * Tiles::stride + feature);
      for_each_own<4, Tiles::own_columns>(
          [&](int f, int j) { scores[i][j] = fmaf(a[f], b[j][f], scores[i][j]); });
    }
  }
}

/// Puts this thread's scores where the other threads of its warp find them.
template <class Tiles>
__device__ __forceinline__ void store_weights(float* weights,
                                              const typename Tiles::scores& scores) {
  const fma_thread<Tiles> thread;
  __syncwarp();  // all are done with the last weights
  for_each_own<Tiles::own_rows, Tiles::own_columns>([&](int i, int j) {
    weights[thread.row(i) * Tiles::weight_stride + thread.column(j)] = scores[i][j];
  });
  __syncwarp();
}

/// sums += weights tile, over the tile's rows [first, end), both multiples of rows_per_warp
template <class Tiles>
__device__ __forceinline__ void fma_columns(typename Tiles::row_sums& sums, const float* weights,
                                            const float* tile, int first, int end) {
  constexpr int width = Tiles::width;
  const fma_thread<Tiles> thread;
  const auto add_four = [&](int k) {
    device::pack<4> a[Tiles::own_rows];
#pragma unroll
    for (int i = 0; i < Tiles::own_rows; ++i) {
      a[i] = device::load<4>(weights + thread.row(i) * Tiles::weight_stride + k);
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      device::pack<width> b[Tiles::own_packs];
#pragma unroll
      for (int c = 0; c < Tiles::own_packs; ++c) {
        b[c] = device::load<width>(tile + (k + r) * Tiles::stride + thread.feature(c));
      }
      for_each_own<Tiles::own_rows, Tiles::own_features>(
          [&](int i, int f) { sums[i][f] = fmaf(a[i][r], b[f / width][f % width], sums[i][f]); });
    }
  };
#pragma unroll 1
  for (int k = first; k < end; k += Tiles::rows_per_warp) {
#pragma unroll
    for (int i = 0; i < Tiles::rows_per_warp; i += 4) add_four(k + i);
  }
}

/// How many of the tile's keys a row of this warp sees, where rows are queries.
template <class Tiles>
__device__ __forceinline__ int seen_keys(int first_query, int first_key) {
  const int end_query = first_query + fma_thread<Tiles>{}.first_row + Tiles::rows_per_warp;
  return (min)(Tiles::inner, end_query - first_key);
}

/// The tile's first query that sees a row of this warp, where rows are keys.
template <class Tiles>
__device__ __forceinline__ int first_seeing_query(int first_key, int first_query) {
  return (max)(0, first_key + fma_thread<Tiles>{}.first_row - first_query);
}

/// Stores the sums times `factor(i)` as rows of a head; its position 0 lies at `matrix`.
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
    for_each_own<Tiles::own_packs, Tiles::width>([&](int c, int w) {
      const int feature = thread.feature(c) + w;
      if (feature < p.head_size) to[feature] = sums[i][c * Tiles::width + w] * factor(i);
    });
  }
}

/// Reduces over the 8 threads that share rows.
template <class Operator>
__device__ __forceinline__ float reduce_row(float value, Operator op) {
#pragma unroll
  for (const int lane_bit : {8, 4, 1}) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, lane_bit));
  }
  return value;
}

}  // namespace detail
LLMC_NAMESPACE_END
