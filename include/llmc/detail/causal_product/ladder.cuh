/// @file
/// The first rungs of causal_product, a float at a time.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/causal_product/tile.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

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

/// What a dense product left above the diagonal becomes 0.
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

}  // namespace detail
LLMC_NAMESPACE_END
