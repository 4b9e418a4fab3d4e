/// @file
/// The scores of causal attention on the CPU; see llmc/causal_product.cuh for the formula and the
/// contract.
#pragma once

#include <algorithm>
#include <cstdint>

#include <llmc/detail/attention/scores.hpp>
#include <llmc/reference/matmul.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

template <class Real>
void causal_product(Real* out, const Real* q, const Real* k, attention_shape shape) {
  const std::int64_t rows = checks::require_scores("llmc::reference::causal_product", shape);
  const std::int64_t T = shape.sequence, HS = shape.head_size;
  parallel_for(rows, [&](std::int64_t row) {
    const std::int64_t head = row / T, t = row % T;
    for (std::int64_t s = 0; s <= t; ++s) {
      out[row * T + s] = static_cast<Real>(dot(q + row * HS, k + (head * T + s) * HS, HS));
    }
    std::fill(out + row * T + t + 1, out + (row + 1) * T, Real{0});
  });
}

LLMC_REFERENCE_END
