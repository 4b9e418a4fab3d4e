/// @file
/// The softmax of causal attention on the CPU; see llmc/causal_softmax.cuh for the formulas and
/// contracts.
#pragma once

#include <algorithm>
#include <cstdint>

#include <llmc/detail/attention/scores.hpp>
#include <llmc/detail/checks.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/reference/row_softmax.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

template <class Real>
void causal_softmax_forward(Real* out, const Real* inp, attention_shape shape, double scale) {
  constexpr const char* function = "llmc::reference::causal_softmax_forward";
  const std::int64_t rows = checks::require_scores(function, shape);
  checks::require_finite_at_least(function, "scale", scale, 0.0);
  const std::int64_t T = shape.sequence;
  parallel_for(rows, T, [&](std::int64_t row, double* scores) {
    const std::int64_t visible = row % T + 1;
    for (std::int64_t j = 0; j < visible; ++j) scores[j] = scale * inp[row * T + j];
    const softmax_statistics statistics = softmax_row_statistics(scores, visible);
    std::transform(scores, scores + visible, out + row * T,
                   [&](double score) { return static_cast<Real>(statistics.probability(score)); });
    std::fill(out + row * T + visible, out + (row + 1) * T, Real{0});
  });
}

template <class Real>
void causal_softmax_backward(Real* dinp, const Real* dout, const Real* out, attention_shape shape,
                             double scale) {
  constexpr const char* function = "llmc::reference::causal_softmax_backward";
  const std::int64_t rows = checks::require_scores(function, shape);
  checks::require_finite_at_least(function, "scale", scale, 0.0);
  const std::int64_t T = shape.sequence;
  parallel_for(rows, [&](std::int64_t row) {
    const std::int64_t visible = row % T + 1;
    const Real* d = dout + row * T;
    const Real* p = out + row * T;
    double mean = 0;
    for (std::int64_t j = 0; j < visible; ++j) mean += static_cast<double>(d[j]) * p[j];
    for (std::int64_t j = 0; j < visible; ++j) {
      dinp[row * T + j] = static_cast<Real>(scale * p[j] * (d[j] - mean));
    }
    std::fill(dinp + row * T + visible, dinp + (row + 1) * T, Real{0});
  });
}

LLMC_REFERENCE_END
