/// @file
/// Sums over rows of a matrix, by a block, for a tile of its columns. Deterministic.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/reduce.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

/// Sums `Sums` quantities at once over rows [first_row, last_row) for the columns of this block's
/// tile, which begins at `first_column` and is `warp_size * Width` wide.
///
/// `row_values(row, column, values)` sets `pack<Width> values[Sums]`, the terms of that row. The
/// totals go to `partials[sum * columns + column]`. Where `partials` is null only `row_values`
/// runs, for its other effects. Every thread of the block must call it.
template <int Width, int Sums, int BlockSize, class RowValues>
__device__ void column_sum_tile(float* partials, std::int64_t first_row, std::int64_t last_row,
                                std::int64_t first_column, std::int64_t columns,
                                RowValues row_values) {
  constexpr int warps = BlockSize / warp_size;
  const int lane = threadIdx.x % warp_size;
  const int warp = threadIdx.x / warp_size;
  const std::int64_t column = first_column + lane * Width;

  pack<Width> sums[Sums] = {};
  if (column < columns) {
    for (std::int64_t row = first_row + warp; row < last_row; row += warps) {
      pack<Width> values[Sums];
      row_values(row, column, values);
#pragma unroll
      for (int s = 0; s < Sums; ++s) {
#pragma unroll
        for (int i = 0; i < Width; ++i) sums[s][i] += values[s][i];
      }
    }
  }

  if (partials == nullptr) return;

  __shared__ pack<Width> shared[Sums][warps][warp_size];
#pragma unroll
  for (int s = 0; s < Sums; ++s) shared[s][warp][lane] = sums[s];
  __syncthreads();
  if (warp == 0 && column < columns) {
#pragma unroll
    for (int s = 0; s < Sums; ++s) {
      for (int w = 1; w < warps; ++w) {
#pragma unroll
        for (int i = 0; i < Width; ++i) sums[s][i] += shared[s][w][lane][i];
      }
      store<Width>(partials + s * columns + column, sums[s]);
    }
  }
  __syncthreads();  // before a caller's next tile writes `shared`
}

}  // namespace device
LLMC_NAMESPACE_END
