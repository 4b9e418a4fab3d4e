/// @file
/// A matrix product as the layers ask for it, whoever computes it. Plain C++.
#pragma once

#include <cstdint>
#include <type_traits>

#include <llmc/detail/namespace.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

namespace products {

/// A layout as a type.
template <layout Order>
using layout_constant = std::integral_constant<layout, Order>;

/// Where the results go, row by row.
struct destination {
  float* data;
  std::int64_t stride;
  std::int64_t batch_stride = 0;
};

/// What becomes of a sum x on its way out, in this order. All matrices here lie like `out`; at most
/// one of `before_gelu`, `gelu_inp` and `residual` is there.
struct epilogue {
  const float* bias = nullptr;      ///< (columns): x += bias
  float* before_gelu = nullptr;     ///< overwritten with x, then x = gelu(x)
  const float* gelu_inp = nullptr;  ///< x *= gelu'(gelu_inp)
  const float* residual = nullptr;  ///< x += residual; may be `out`
  float* column_sums = nullptr;     ///< overwritten with partial sums of x, see column_sum_rows
};

/// Row r of `column_sums` (ceil(rows / column_sum_rows), columns) is the sum of x over that many
/// rows of out.
inline constexpr std::int64_t column_sum_rows = 128;

/// out = factor * inp1 inp2, then the epilogue: inp1 is (rows, inner), inp2 is (inner, columns),
/// out is (rows, columns), `batch` times. All extents are at least 1.
struct product {
  destination out;
  operand inp1;
  operand inp2;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t inner;
  std::int64_t batch = 1;
  float factor = 1.0f;
  epilogue then = {};
  precision arithmetic = precision::ieee;
};

/// Whether the operands lie in the one way that no linear layer needs and no kernel of ours takes.
inline bool has_odd_layouts(const product& p) {
  return p.inp1.order == layout::outer_first && p.inp2.order == layout::inner_first;
}

/// Calls `body` with both layouts as layout_constants. The products of a linear layer are
///
///     out     = inp   weight^T    inner_first, inner_first
///     dinp    = dout  weight      inner_first, outer_first
///     dweight = dout^T inp        outer_first, outer_first
template <class Body>
void with_layouts(const product& p, Body body) {
  using inner_first = layout_constant<layout::inner_first>;
  using outer_first = layout_constant<layout::outer_first>;
  if (p.inp1.order == layout::outer_first) {
    body(outer_first{}, outer_first{});
  } else if (p.inp2.order == layout::inner_first) {
    body(inner_first{}, inner_first{});
  } else {
    body(inner_first{}, outer_first{});
  }
}

}  // namespace products

LLMC_TYPES_END
