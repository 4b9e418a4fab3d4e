/// @file
/// The residual add and the layer normalisation of its result on the CPU; see
/// llmc/residual_layernorm.cuh for the formulas and contracts.
#pragma once

#include <llmc/detail/checks.hpp>
#include <llmc/reference/layernorm.hpp>
#include <llmc/reference/matmul.hpp>
#include <llmc/reference/residual.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

template <class Real>
void residual_layernorm_forward(Real* residual, Real* out, Real* mean, Real* rstd, const Real* inp1,
                                const Real* inp2, const Real* weight, const Real* bias,
                                row_shape shape, double epsilon) {
  const std::int64_t count =
      checks::require_shape("llmc::reference::residual_layernorm_forward", shape);
  residual_forward(residual, inp1, inp2, count);
  layernorm_forward(out, mean, rstd, residual, weight, bias, shape, epsilon);
}

/// `dinp_bias` may be null.
template <class Real>
void residual_layernorm_backward(Real* dinp, Real* dinp_bias, Real* dweight, Real* dbias,
                                 const Real* dout, const Real* dresidual, const Real* residual,
                                 const Real* weight, const Real* mean, const Real* rstd,
                                 row_shape shape, accumulation mode) {
  checks::require_shape("llmc::reference::residual_layernorm_backward", shape);
  layernorm_backward_plus(dinp, dweight, dbias, dresidual, dout, residual, weight, mean, rstd,
                          shape, mode);
  if (dinp_bias != nullptr) matmul_bias_backward(dinp_bias, dinp, shape, mode);
}

LLMC_REFERENCE_END
