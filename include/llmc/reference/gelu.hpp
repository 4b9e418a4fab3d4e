/// @file
/// The GELU activation on the CPU; see llmc/gelu.cuh for the formulas and contracts.
#pragma once

#include <cmath>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

inline constexpr double gelu_scale = 0.79788456080286536;  // sqrt(2 / pi)
inline constexpr double gelu_cubic = 0.044715;

template <class Real>
void gelu_forward(Real* out, const Real* inp, std::int64_t count) {
  checks::require_count("llmc::reference::gelu_forward", count);
  parallel_for(count, [&](std::int64_t i) {
    const double x = inp[i];
    const double t = std::tanh(gelu_scale * (x + gelu_cubic * x * x * x));
    out[i] = static_cast<Real>(0.5 * x * (1 + t));
  });
}

template <class Real>
void gelu_backward(Real* dinp, const Real* dout, const Real* inp, std::int64_t count) {
  checks::require_count("llmc::reference::gelu_backward", count);
  parallel_for(count, [&](std::int64_t i) {
    const double x = inp[i];
    const double t = std::tanh(gelu_scale * (x + gelu_cubic * x * x * x));
    const double dt = (1 - t * t) * gelu_scale * (1 + 3 * gelu_cubic * x * x);
    dinp[i] = static_cast<Real>(dout[i] * (0.5 * (1 + t) + 0.5 * x * dt));
  });
}

LLMC_REFERENCE_END
