/// @file
/// The rung that keeps tiles of both operands in shared memory: what one thread has loaded serves a
/// whole row or column of its block.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/matmul/ladder/problem.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/operand.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Outers by k. The extra column puts neighbours in k, and neighbours in outer, into different
/// banks.
template <int Side>
using shared_square = float[Side][Side + 1];

/// Copies a square of an operand, a float a thread, along the lines in memory; zeros where the
/// matrix ends.
template <products::layout Order, int Side>
__device__ __forceinline__ void load_square(shared_square<Side>& square, const products::operand& m,
                                            std::int64_t outers, std::int64_t first_outer,
                                            std::int64_t first_k, std::int64_t inner) {
  constexpr bool inner_first = Order == products::layout::inner_first;
  const int along = static_cast<int>(threadIdx.x) % Side;
  const int line = static_cast<int>(threadIdx.x) / Side;
  const int outer = inner_first ? line : along;
  const int k = inner_first ? along : line;
  const bool inside = first_outer + outer < outers && first_k + k < inner;
  square[outer][k] = inside ? *device::element<Order>(m, first_outer + outer, first_k + k) : 0.0f;
}

/// A block owns a square of the result, a thread one sum of it:
///
///                      second, k by column
///                      +-------+
///                      |   |   |  <- thread (y, x) reads column x ...
///     first            +---|---+
///     +-------+        +---|---+
///     |-------|        |---o   |  <- ... and row y, and owns the sum o
///     +-------+        +-------+
///     row by k           result
///
/// Each of the Side * Side floats that are loaded is used Side times.
template <class Layouts, int Side>
__global__ void __launch_bounds__(Side* Side) shared_tile_kernel(rung_problem p) {
  __shared__ shared_square<Side> first;
  __shared__ shared_square<Side> second;
  const int x = static_cast<int>(threadIdx.x) % Side;
  const int y = static_cast<int>(threadIdx.x) / Side;
  for_each_tile(p, Side, [&](std::int64_t row, std::int64_t column) {
    float sum = 0.0f;
    for (std::int64_t k = 0; k < p.inner; k += Side) {
      load_square<Layouts::first, Side>(first, p.first, p.rows, row, k, p.inner);
      load_square<Layouts::second, Side>(second, p.second, p.columns, column, k, p.inner);
      __syncthreads();
      float part = 0.0f;
#pragma unroll
      for (int i = 0; i < Side; ++i) part = fmaf(first[y][i], second[x][i], part);
      sum += part;
      __syncthreads();  // before the next squares come
    }
    put_sum(p, row + y, column + x, sum);
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
