/// @file
/// What layer normalisation with and without a residual share.
#pragma once

#include <llmc/layernorm.cuh>

#include <cstdint>

#include "rows.hpp"

namespace llmc_registry {

inline constexpr float layernorm_epsilon = 1e-5f;

/// The largest rstd of rows of normal numbers: among few of them a row may be nearly constant.
inline double most_rstd(std::int64_t channels) {
  return channels < 16 ? 316 : 2;
}

/// The error of a mean is multiplied by rstd.
inline tolerance normalised_tolerance(std::int64_t channels, double scale) {
  return llmc_test::sum_tolerance(channels, 4 * scale * most_rstd(channels));
}

inline tolerance rstd_tolerance(std::int64_t channels) {
  return {0, 4e-6 * most_rstd(channels)};
}

/// Of dweight and dbias: sums over the rows of terms of which few pass 8.
inline tolerance column_tolerance(llmc::row_shape s) {
  return llmc_test::sum_tolerance(s.rows, 8 * most_rstd(s.channels));
}

/// The statistics of the rows, as a forward pass leaves them for backward.
inline void layernorm_statistics(float* mean, float* rstd, const float* inp, llmc::row_shape s) {
  const llmc_test::buffer<float> out(count_of(s)), weight(s.channels), bias(s.channels);
  llmc::layernorm_forward(out, mean, rstd, inp, weight, bias, s, layernorm_epsilon, nullptr);
  llmc_test::check_cuda(cudaDeviceSynchronize());
}

}  // namespace llmc_registry
