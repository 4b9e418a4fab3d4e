/// @file
/// The GELU activation and its derivative, one number at a time; see llmc/gelu.cuh for the formula.
///
/// It is computed as x / (1 + exp(-y)) with y = 2 sqrt(2 / pi) * (x + 0.044715 x^3). That is the
/// same, but keeps the digits that 1 + tanh loses where tanh is near -1. The hardware's fast
/// exponential and division lose a few digits: relative errors are a few 1e-7, and up to 1e-5 far
/// left of 0, where GELU is tiny.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <llmc/detail/namespace.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

inline constexpr float gelu_linear = 1.5957691216057308f;   // 2 sqrt(2 / pi)
inline constexpr float gelu_cubic = 0.071354816272600253f;  // gelu_linear * 0.044715

/// GELU of one number. Far below 0 the exponential is infinite and the quotient 0.
__device__ __forceinline__ float gelu(float x) {
  return __fdividef(x, 1.0f + __expf(-x * (gelu_linear + gelu_cubic * x * x)));
}

/// The derivative of gelu: s * (1 + x * y' * (1 - s)) with s = 1 / (1 + exp(-y)).
///
/// In FP32 it is 1 above 10 and less than 1e-35 below -10. Stopping there keeps the exponential
/// finite, so that 1 - s can be had without cancellation as exp(-y) * s. NaN passes both
/// comparisons.
__device__ __forceinline__ float gelu_derivative(float x) {
  constexpr float limit = 10.0f;
  x = x < -limit ? -limit : (x > limit ? limit : x);
  const float e = __expf(-x * (gelu_linear + gelu_cubic * x * x));
  const float s = __fdividef(1.0f, 1.0f + e);
  return s * (1.0f + x * (gelu_linear + 3.0f * gelu_cubic * x * x) * (e * s));
}

}  // namespace device
LLMC_NAMESPACE_END
