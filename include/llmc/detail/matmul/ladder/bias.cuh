/// @file
/// The first rungs of a bias gradient: sums over the rows of a matrix by one block a column, or a
/// few columns.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/device/sum_in_parts.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// A block owns a column, its threads share the rows. A warp reads 32 rows at a time, and of every
/// 32 bytes that come from memory it uses 4.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    bias_column_per_block_kernel(float* dbias, const float* dout, row_shape shape,
                                 accumulation mode) {
  __shared__ float warp_sums[MostThreads / device::warp_size];
  const int lane = static_cast<int>(threadIdx.x) % device::warp_size;
  const int warp = static_cast<int>(threadIdx.x) / device::warp_size;
  const int warps = static_cast<int>(blockDim.x) / device::warp_size;
  for (std::int64_t column = blockIdx.x; column < shape.channels; column += gridDim.x) {
    const float part =
        device::sum_in_parts(threadIdx.x, shape.rows, blockDim.x,
                             [&](std::int64_t row) { return dout[row * shape.channels + column]; });
    const float warp_total = device::warp_sum(part);
    if (lane == 0) warp_sums[warp] = warp_total;
    __syncthreads();
    if (warp == 0) {
      const float total = device::warp_sum(lane < warps ? warp_sums[lane] : 0.0f);
      if (lane == 0) {
        device::store_or_add<1>(dbias + column, {{total}}, mode == accumulation::add);
      }
    }
    __syncthreads();  // before the next column's sums come
  }
}

/// A block owns 32 columns, a lane one of them; its warps share the rows. A warp reads 32
/// neighbours at a time. With few columns there are few blocks.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    bias_warp_columns_kernel(float* dbias, const float* dout, row_shape shape, accumulation mode) {
  __shared__ float sums[MostThreads / device::warp_size][device::warp_size];
  const int lane = static_cast<int>(threadIdx.x) % device::warp_size;
  const int warp = static_cast<int>(threadIdx.x) / device::warp_size;
  const int warps = static_cast<int>(blockDim.x) / device::warp_size;
  for (std::int64_t first = std::int64_t{blockIdx.x} * device::warp_size; first < shape.channels;
       first += std::int64_t{gridDim.x} * device::warp_size) {
    const std::int64_t column = first + lane;
    const bool inside = column < shape.channels;
    float total = 0.0f;
    if (inside) {
      total = device::sum_in_parts(warp, shape.rows, warps, [&](std::int64_t row) {
        return dout[row * shape.channels + column];
      });
    }
    sums[warp][lane] = total;
    __syncthreads();
    if (warp == 0 && inside) {
      for (int w = 1; w < warps; ++w) total += sums[w][lane];
      device::store_or_add<1>(dbias + column, {{total}}, mode == accumulation::add);
    }
    __syncthreads();  // before the next columns' sums come
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
