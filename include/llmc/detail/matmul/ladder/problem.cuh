/// @file
/// What the rungs of the ladder share: a product, its tiles, and how a finished sum goes out.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/epilogue.cuh>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/operand.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// How the operands lie, see products::with_layouts.
template <products::layout First, products::layout Second>
struct rung_layouts {
  static constexpr products::layout first = First;
  static constexpr products::layout second = Second;
};

/// All extents are at least 1.
struct rung_problem {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t inner;
  products::operand first;
  products::operand second;
  product_output to;
  bool wide_out;  ///< sums can go out 4 at a time
};

inline rung_problem rung_problem_of(const products::product& p) {
  const product_output to = output_of(p);
  return {p.rows,
          p.columns,
          p.inner,
          p.inp1,
          p.inp2,
          to,
          is_16_byte_accessible(to.stride, to.out, to.bias, to.other)};
}

inline std::int64_t tiles_of(const products::product& p, int side) {
  return ceil_div(p.rows, side) * ceil_div(p.columns, side);
}

/// Calls `body(first_row, first_column)` for each of this block's tiles, one row of tiles after the
/// other.
template <class Body>
__device__ __forceinline__ void for_each_tile(const rung_problem& p, int side, Body body) {
  const std::int64_t across = (p.columns + side - 1) / side;
  const std::int64_t down = (p.rows + side - 1) / side;
  for (std::int64_t tile = blockIdx.x; tile < down * across; tile += gridDim.x) {
    body(tile / across * side, tile % across * side);
  }
}

/// Adds the bias and the residual to consecutive sums of a row, and stores them.
template <int Width>
__device__ __forceinline__ void put_sums(const product_output& to, std::int64_t row,
                                         std::int64_t column, device::pack<Width> x) {
  const std::int64_t at = row * to.stride + column;
  if (to.bias != nullptr) {
    const auto bias = device::load<Width>(to.bias + column);
#pragma unroll
    for (int i = 0; i < Width; ++i) x[i] += bias[i];
  }
  if (to.other != nullptr) {
    const auto residual = device::load<Width>(to.other + at);
#pragma unroll
    for (int i = 0; i < Width; ++i) x[i] += residual[i];
  }
  device::store<Width>(to.out + at, x);
}

/// The same for one sum, if it is inside the matrix.
__device__ __forceinline__ void put_sum(const rung_problem& p, std::int64_t row,
                                        std::int64_t column, float sum) {
  if (row < p.rows && column < p.columns) put_sums<1>(p.to, row, column, {{sum}});
}

/// The same for those of 4 sums that are inside the matrix; `column` is a multiple of 4.
__device__ __forceinline__ void put_quad(const rung_problem& p, std::int64_t row,
                                         std::int64_t column, device::pack<4> x) {
  if (p.wide_out && row < p.rows && column + 4 <= p.columns) {
    put_sums<4>(p.to, row, column, x);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) put_sum(p, row, column + i, x[i]);
}

}  // namespace detail
LLMC_NAMESPACE_END
