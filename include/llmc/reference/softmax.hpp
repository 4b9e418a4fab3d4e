/// @file
/// Softmax on the CPU; see llmc/softmax.cuh for the formulas and contracts.
#pragma once

#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/reference/row_softmax.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

template <class Real>
void softmax_forward(Real* out, const Real* inp, row_shape shape) {
  checks::require_shape("llmc::reference::softmax_forward", shape);
  const std::int64_t C = shape.channels;
  parallel_for(shape.rows, [&](std::int64_t row) {
    const softmax_statistics statistics = softmax_row_statistics(inp + row * C, C);
    for (std::int64_t c = 0; c < C; ++c) {
      out[row * C + c] = static_cast<Real>(statistics.probability(inp[row * C + c]));
    }
  });
}

template <class Real>
void softmax_backward(Real* dinp, const Real* dout, const Real* out, row_shape shape) {
  checks::require_shape("llmc::reference::softmax_backward", shape);
  const std::int64_t C = shape.channels;
  parallel_for(shape.rows, [&](std::int64_t row) {
    const Real* d = dout + row * C;
    const Real* p = out + row * C;
    double dot = 0;
    for (std::int64_t c = 0; c < C; ++c) dot += static_cast<double>(d[c]) * p[c];
    for (std::int64_t c = 0; c < C; ++c) {
      dinp[row * C + c] = static_cast<Real>(p[c] * (d[c] - dot));
    }
  });
}

LLMC_REFERENCE_END
