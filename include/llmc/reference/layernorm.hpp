/// @file
/// Layer normalisation on the CPU; see llmc/layernorm.cuh for the formulas and contracts.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <llmc/detail/checks.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

template <class Real>
void layernorm_forward(Real* out, Real* mean, Real* rstd, const Real* inp, const Real* weight,
                       const Real* bias, row_shape shape, double epsilon) {
  checks::require_shape("llmc::reference::layernorm_forward", shape);
  const std::int64_t C = shape.channels;
  parallel_for(shape.rows, [&](std::int64_t row) {
    const Real* x = inp + row * C;
    double sum = 0;
    for (std::int64_t c = 0; c < C; ++c) sum += x[c];
    const double m = sum / static_cast<double>(C);
    double squares = 0;
    for (std::int64_t c = 0; c < C; ++c) squares += (x[c] - m) * (x[c] - m);
    const double r = 1 / std::sqrt(squares / static_cast<double>(C) + epsilon);
    for (std::int64_t c = 0; c < C; ++c) {
      out[row * C + c] = static_cast<Real>((x[c] - m) * r * weight[c] + bias[c]);
    }
    if (mean != nullptr) mean[row] = static_cast<Real>(m);
    if (rstd != nullptr) rstd[row] = static_cast<Real>(r);
  });
}

/// layernorm_backward with `addend`, which may be null, added to dinp.
template <class Real>
void layernorm_backward_plus(Real* dinp, Real* dweight, Real* dbias, const Real* addend,
                             const Real* dout, const Real* inp, const Real* weight,
                             const Real* mean, const Real* rstd, row_shape shape,
                             accumulation mode) {
  const std::int64_t C = shape.channels;
  const auto norm = [&](std::int64_t row, std::int64_t c) {
    return (static_cast<double>(inp[row * C + c]) - mean[row]) * rstd[row];
  };

  // The parameters first: dinp may overwrite dout.
  std::vector<double> weight_sum(static_cast<std::size_t>(C), 0.0);
  std::vector<double> bias_sum(static_cast<std::size_t>(C), 0.0);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (std::int64_t c = 0; c < C; ++c) {
      weight_sum[static_cast<std::size_t>(c)] += dout[row * C + c] * norm(row, c);
      bias_sum[static_cast<std::size_t>(c)] += dout[row * C + c];
    }
  }
  for (std::int64_t c = 0; c < C; ++c) {
    const bool add = mode == accumulation::add;
    const double dw = weight_sum[static_cast<std::size_t>(c)];
    const double db = bias_sum[static_cast<std::size_t>(c)];
    dweight[c] = static_cast<Real>(add ? dweight[c] + dw : dw);
    dbias[c] = static_cast<Real>(add ? dbias[c] + db : db);
  }

  parallel_for(shape.rows, [&](std::int64_t row) {
    double dnorm_mean = 0;
    double dnorm_norm_mean = 0;
    for (std::int64_t c = 0; c < C; ++c) {
      const double dnorm = static_cast<double>(dout[row * C + c]) * weight[c];
      dnorm_mean += dnorm;
      dnorm_norm_mean += dnorm * norm(row, c);
    }
    dnorm_mean /= static_cast<double>(C);
    dnorm_norm_mean /= static_cast<double>(C);
    for (std::int64_t c = 0; c < C; ++c) {
      const double dnorm = static_cast<double>(dout[row * C + c]) * weight[c];
      const double gradient = (dnorm - dnorm_mean - norm(row, c) * dnorm_norm_mean) * rstd[row];
      const double other = addend != nullptr ? addend[row * C + c] : Real(0);
      dinp[row * C + c] = static_cast<Real>(other + gradient);
    }
  });
}

template <class Real>
void layernorm_backward(Real* dinp, Real* dweight, Real* dbias, const Real* dout, const Real* inp,
                        const Real* weight, const Real* mean, const Real* rstd, row_shape shape,
                        accumulation mode) {
  checks::require_shape("llmc::reference::layernorm_backward", shape);
  layernorm_backward_plus<Real>(dinp, dweight, dbias, nullptr, dout, inp, weight, mean, rstd, shape,
                                mode);
}

LLMC_REFERENCE_END
