/// @file
/// What the variants of layernorm_forward are given.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/row/layernorm_registers.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Every array of layernorm_forward.
struct layernorm_forward_arrays {
  float* out;
  float* mean;  ///< may be null, as may rstd
  float* rstd;
  const float* inp;
  const float* weight;
  const float* bias;

  /// Whether all rows can be read 16 bytes at a time.
  bool wide(row_shape shape) const {
    return is_16_byte_accessible(shape.channels, out, inp, weight, bias);
  }

  /// Writes a row's statistics where somebody wants them.
  __device__ void keep(std::int64_t row, device::row_statistics statistics) const {
    if (mean != nullptr) mean[row] = statistics.mean;
    if (rstd != nullptr) rstd[row] = statistics.rstd;
  }
};

}  // namespace detail
LLMC_NAMESPACE_END
