/// @file
/// Layer normalisation of a row in memory, forward and backward, by a warp; see layernorm.cuh of
/// the layers for the formulas.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/layernorm_registers.cuh>
#include <llmc/device/row/reduce.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

/// Reciprocal standard deviation of a row whose mean is known, by one full warp; every lane gets
/// it.
template <int Width>
__device__ float layernorm_row_rstd(const float* inp, std::int64_t channels, float mean,
                                    float epsilon) {
  const int lane = threadIdx.x % warp_size;
  float squares = 0.0f;
  for_each_pack<Width>(channels, lane, warp_size, [&](auto width, std::int64_t c) {
    const auto x = load<width()>(inp + c);
    for (int i = 0; i < width(); ++i) squares += (x[i] - mean) * (x[i] - mean);
  });
  return 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(channels) + epsilon);
}

/// Mean and reciprocal standard deviation of a row, by one full warp; every lane gets them.
template <int Width>
__device__ row_statistics layernorm_row_statistics(const float* inp, std::int64_t channels,
                                                   float epsilon) {
  const int lane = threadIdx.x % warp_size;
  float sum = 0.0f;
  for_each_pack<Width>(channels, lane, warp_size, [&](auto width, std::int64_t c) {
    const auto x = load<width()>(inp + c);
    for (int i = 0; i < width(); ++i) sum += x[i];
  });
  const float mean = warp_sum(sum) / static_cast<float>(channels);
  return {mean, layernorm_row_rstd<Width>(inp, channels, mean, epsilon)};
}

/// The same in one pass over the row, from the sum and the sum of squares: the variance is their
/// difference E[x^2] - E[x]^2. Where the mean is large these are nearly equal, and the digits that
/// they share are lost: the relative error of rstd is a few eps * (1 + (mean * rstd)^2), with
/// eps = 2^-23, until no digit is left. A variance that comes out negative is taken as 0.
template <int Width>
__device__ row_statistics layernorm_row_statistics_in_one_pass(const float* inp,
                                                               std::int64_t channels,
                                                               float epsilon) {
  const int lane = threadIdx.x % warp_size;
  float sum = 0.0f;
  float squares = 0.0f;
  for_each_pack<Width>(channels, lane, warp_size, [&](auto width, std::int64_t c) {
    const auto x = load<width()>(inp + c);
    for (int i = 0; i < width(); ++i) {
      sum += x[i];
      squares += x[i] * x[i];
    }
  });
  const float mean = warp_sum(sum) / static_cast<float>(channels);
  // The product is rounded before it is subtracted, as the squares were: a row of one number then
  // has variance 0, where a fused multiply-add would leave a rounding error.
  const float variance = warp_sum(squares) / static_cast<float>(channels) - __fmul_rn(mean, mean);
  return {mean, 1.0f / sqrtf((variance < 0.0f ? 0.0f : variance) + epsilon)};  // NaN stays NaN
}

/// Normalises a row whose statistics are known, by one warp.
template <int Width>
__device__ void layernorm_row_apply(float* out, const float* inp, const float* weight,
                                    const float* bias, std::int64_t channels,
                                    row_statistics statistics) {
  const int lane = threadIdx.x % warp_size;
  for_each_pack<Width>(channels, lane, warp_size, [&](auto width, std::int64_t c) {
    auto x = load<width()>(inp + c);
    const auto w = load<width()>(weight + c);
    const auto b = load<width()>(bias + c);
    for (int i = 0; i < width(); ++i) {
      x[i] = (x[i] - statistics.mean) * statistics.rstd * w[i] + b[i];
    }
    store<width()>(out + c, x);
  });
}

/// The gradient of one row with respect to its input, by one full warp:
///
///     norm = (inp - mean) * rstd,  dnorm = dout * weight
///     dinp = rstd * (dnorm - sum(dnorm) / C - norm * sum(dnorm * norm) / C) + addend
///
/// `addend` may be null (then 0) and may alias `dinp`, as may `dout`.
template <int Width>
__device__ void layernorm_backward_row(float* dinp, const float* addend, const float* dout,
                                       const float* inp, const float* weight, std::int64_t channels,
                                       row_statistics statistics) {
  const int lane = threadIdx.x % warp_size;
  float dnorm_sum = 0.0f;
  float dnorm_norm_sum = 0.0f;
  for_each_pack<Width>(channels, lane, warp_size, [&](auto width, std::int64_t c) {
    const auto d = load<width()>(dout + c);
    const auto x = load<width()>(inp + c);
    const auto w = load<width()>(weight + c);
    for (int i = 0; i < width(); ++i) {
      const float dnorm = d[i] * w[i];
      dnorm_sum += dnorm;
      dnorm_norm_sum += dnorm * ((x[i] - statistics.mean) * statistics.rstd);
    }
  });
  const float dnorm_mean = warp_sum(dnorm_sum) / static_cast<float>(channels);
  const float dnorm_norm_mean = warp_sum(dnorm_norm_sum) / static_cast<float>(channels);

  for_each_pack<Width>(channels, lane, warp_size, [&](auto width, std::int64_t c) {
    const auto d = load<width()>(dout + c);
    const auto x = load<width()>(inp + c);
    const auto w = load<width()>(weight + c);
    pack<width()> result = {};
    if (addend != nullptr) result = load<width()>(addend + c);
    for (int i = 0; i < width(); ++i) {
      const float norm = (x[i] - statistics.mean) * statistics.rstd;
      result[i] += (d[i] * w[i] - dnorm_mean - norm * dnorm_norm_mean) * statistics.rstd;
    }
    store<width()>(dinp + c, result);
  });
}

/// The terms of one row in dweight and dbias, for column_sum.
struct layernorm_parameter_gradient {
  const float* dout;
  const float* inp;
  const float* mean;
  const float* rstd;
  std::int64_t channels;

  template <int Width>
  __device__ void operator()(std::int64_t row, std::int64_t c, pack<Width> (&values)[2]) const {
    const auto d = load<Width>(dout + row * channels + c);
    const auto x = load<Width>(inp + row * channels + c);
    for (int i = 0; i < Width; ++i) values[0][i] = d[i] * ((x[i] - mean[row]) * rstd[row]);
    values[1] = d;
  }
};

}  // namespace device
LLMC_NAMESPACE_END
