/// @file
/// A linear layer on the CPU; see llmc/matmul.cuh for the formulas and contracts.
#pragma once

#include <algorithm>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

/// sum_i a[i] * b[i] in double. Eight partial sums, so that a compiler may use vector instructions
/// without being allowed to reorder a sum.
template <class Real>
double dot(const Real* a, const Real* b, std::int64_t count) {
  constexpr int lanes = 8;
  double partial[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int j = 0; j < lanes; ++j) {
      partial[j] += static_cast<double>(a[i + j]) * static_cast<double>(b[i + j]);
    }
  }
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  for (const double p : partial) sum += p;
  return sum;
}

/// sums[i] += factor * values[i], in double.
template <class Real>
void add_scaled(double* sums, double factor, const Real* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += factor * static_cast<double>(values[i]);
}

template <class Real>
void matmul_forward(Real* out, const Real* inp, const Real* weight, const Real* bias,
                    matmul_shape shape) {
  checks::require_shape("llmc::reference::matmul_forward", shape);
  const std::int64_t C = shape.channels;
  const std::int64_t OC = shape.out_channels;
  parallel_for(shape.rows, [&](std::int64_t row) {
    for (std::int64_t o = 0; o < OC; ++o) {
      const double sum = dot(inp + row * C, weight + o * C, C);
      out[row * OC + o] =
          static_cast<Real>(bias == nullptr ? sum : sum + static_cast<double>(bias[o]));
    }
  });
}

/// The sums over the rows of a layer's dout (rows, OC).
template <class Real>
void matmul_bias_backward(Real* dbias, const Real* dout, row_shape shape, accumulation mode) {
  checks::require_shape("llmc::reference::matmul_bias_backward", shape);
  parallel_for(shape.channels, [&](std::int64_t o) {
    double sum = 0;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      sum += static_cast<double>(dout[row * shape.channels + o]);
    }
    if (mode == accumulation::add) sum += static_cast<double>(dbias[o]);
    dbias[o] = static_cast<Real>(sum);
  });
}

template <class Real>
void matmul_backward(Real* dinp, Real* dweight, Real* dbias, const Real* dout, const Real* inp,
                     const Real* weight, matmul_shape shape, accumulation mode) {
  checks::require_shape("llmc::reference::matmul_backward", shape);
  const std::int64_t rows = shape.rows;
  const std::int64_t C = shape.channels;
  const std::int64_t OC = shape.out_channels;
  const auto put = [mode](Real& to, double value) {
    to = static_cast<Real>(mode == accumulation::add ? static_cast<double>(to) + value : value);
  };

  if (dinp != nullptr) {
    parallel_for(rows, C, [&](std::int64_t row, double* sums) {
      std::fill(sums, sums + C, 0.0);
      for (std::int64_t o = 0; o < OC; ++o) {
        add_scaled(sums, static_cast<double>(dout[row * OC + o]), weight + o * C, C);
      }
      std::transform(sums, sums + C, dinp + row * C,
                     [](double sum) { return static_cast<Real>(sum); });
    });
  }
  if (dweight != nullptr) {
    parallel_for(OC, C, [&](std::int64_t o, double* sums) {
      std::fill(sums, sums + C, 0.0);
      for (std::int64_t row = 0; row < rows; ++row) {
        add_scaled(sums, static_cast<double>(dout[row * OC + o]), inp + row * C, C);
      }
      for (std::int64_t c = 0; c < C; ++c) put(dweight[o * C + c], sums[c]);
    });
  }
  if (dbias != nullptr) matmul_bias_backward(dbias, dout, {rows, OC}, mode);
}

LLMC_REFERENCE_END
