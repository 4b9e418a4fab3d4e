/// @file
/// A linear layer of few rows on the CPU: the numbers of matmul_forward, bit by bit, but the cores
/// share the weight, which is read once for all rows.
#pragma once

#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/reference/matmul.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

/// `bias` may be null.
template <class Real>
void matmul_few_rows_forward(Real* out, const Real* inp, const Real* weight, const Real* bias,
                             matmul_shape shape) {
  checks::require_shape("llmc::reference::matmul_few_rows_forward", shape);
  const std::int64_t C = shape.channels;
  const std::int64_t OC = shape.out_channels;
  parallel_for(OC, [&](std::int64_t o) {
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const double sum = dot(inp + row * C, weight + o * C, C);
      out[row * OC + o] =
          static_cast<Real>(bias == nullptr ? sum : sum + static_cast<double>(bias[o]));
    }
  });
}

LLMC_REFERENCE_END
