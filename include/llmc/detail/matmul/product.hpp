/// @file
/// A matrix product as the layers ask for it, whoever computes it. Plain C++.
#pragma once

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

namespace products {

/// A matrix as it lies in memory: row-major with `stride` floats between rows and `batch_stride`
/// between the matrices of a batch; `transposed` says that the product takes it the other way.
template <class Float>
struct matrix {
  Float* data;
  std::int64_t stride;
  bool transposed = false;
  std::int64_t batch_stride = 0;
};

/// What becomes of a sum x on its way out, in this order. All matrices here lie like `out`; at most
/// one of `before_gelu`, `gelu_inp` and `residual` is there.
struct epilogue {
  const float* bias = nullptr;      ///< (columns): x += bias
  float* before_gelu = nullptr;     ///< overwritten with x, then x = gelu(x)
  const float* gelu_inp = nullptr;  ///< x *= gelu'(gelu_inp)
  const float* residual =
      nullptr;                   ///< x += residual; where it is `out`, the product is added to it
  float* column_sums = nullptr;  ///< overwritten with partial sums of x, see column_sum_rows
};

/// Row r of `column_sums` (ceil(rows / column_sum_rows), columns) is the sum of x over as many rows
/// of out.
inline constexpr std::int64_t column_sum_rows = 128;

/// out = factor * inp1 inp2, then the epilogue: inp1 is (rows, inner), inp2 is (inner, columns),
/// out is (rows, columns), `batch` times. All extents are at least 1.
struct product {
  matrix<float> out;
  matrix<const float> inp1;
  matrix<const float> inp2;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t inner;
  std::int64_t batch = 1;
  float factor = 1.0f;
  epilogue then = {};
  precision arithmetic = precision::ieee;
};

}  // namespace products

LLMC_TYPES_END
