/// @file
/// Layer normalisation of a row in registers, forward and backward, by a warp or a block; see
/// layernorm.cuh of the layers for the formulas.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/row_registers.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

struct row_statistics {
  float mean;
  float rstd;
};

/// Mean and reciprocal standard deviation of a row; every thread of the group gets them. The
/// deviations are taken from the mean itself, so no digits are lost where the mean is large.
template <int Width, int Floats, int Threads, int BlockSize>
__device__ __forceinline__ row_statistics layernorm_statistics(
    row_group<Threads, BlockSize>& group, const row_registers<Width, Floats, Threads>& row,
    int channels, float epsilon) {
  using registers = row_registers<Width, Floats, Threads>;
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < registers::packs; ++k) {
#pragma unroll
    for (int i = 0; i < Width; ++i) sum += row.values[k][i];
  }
  const float mean = group.sum(sum) / static_cast<float>(channels);
  float squares = 0.0f;
  registers::for_each_pack(group.rank(), channels, [&](int k, int) {
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      squares += (row.values[k][i] - mean) * (row.values[k][i] - mean);
    }
  });
  return {mean, 1.0f / sqrtf(group.sum(squares) / static_cast<float>(channels) + epsilon)};
}

/// Turns a row into its normalised form, of which `weight` holds the weights.
template <int Width, int Floats, int Threads>
__device__ __forceinline__ void layernorm_apply(row_registers<Width, Floats, Threads>& row,
                                                const row_registers<Width, Floats, Threads>& weight,
                                                const float* bias, int rank, int channels,
                                                row_statistics statistics) {
  using registers = row_registers<Width, Floats, Threads>;
#pragma unroll
  for (int k = 0; k < registers::packs; ++k) {
    const auto b = registers::load_pack(bias, k, rank, channels);
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      row.values[k][i] =
          (row.values[k][i] - statistics.mean) * statistics.rstd * weight.values[k][i] + b[i];
    }
  }
}

/// The gradient of a row with respect to its input, and what the row adds to the gradients of
/// weight and bias; see layernorm_backward_row for the formula. `dout` and `inp` hold the row's;
/// they are used up.
template <int Width, int Floats, int Threads, int BlockSize>
__device__ __forceinline__ void layernorm_backward_registers(
    row_group<Threads, BlockSize>& group, float* dinp,
    row_registers<Width, Floats, Threads>& dweight, row_registers<Width, Floats, Threads>& dbias,
    const float* addend, row_registers<Width, Floats, Threads>& dout,
    row_registers<Width, Floats, Threads>& inp, const float* weight, int channels,
    row_statistics statistics) {
  using registers = row_registers<Width, Floats, Threads>;
  float dnorm_sum = 0.0f;
  float dnorm_norm_sum = 0.0f;
  // One pack after the other: weights of more packs at once would not fit beside the sums.
  registers::for_each_pack(group.rank(), channels, [&](int k, int c) {
    const auto w = load<Width>(weight + c);
    pack<Width> result = {};  // as far as it is known before the sums are
    if (addend != nullptr) result = load<Width>(addend + c);
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      const float norm = (inp.values[k][i] - statistics.mean) * statistics.rstd;
      const float dnorm = dout.values[k][i] * w[i];
      dbias.values[k][i] += dout.values[k][i];
      dweight.values[k][i] += dout.values[k][i] * norm;
      dnorm_sum += dnorm;
      dnorm_norm_sum += dnorm * norm;
      inp.values[k][i] = norm;
      dout.values[k][i] = result[i] + dnorm * statistics.rstd;
    }
  });
  const float scale = statistics.rstd / static_cast<float>(channels);
  const float shift = group.sum(dnorm_sum) * scale;
  const float slope = group.sum(dnorm_norm_sum) * scale;
#pragma unroll
  for (int k = 0; k < registers::packs; ++k) {
#pragma unroll
    for (int i = 0; i < Width; ++i) dout.values[k][i] -= shift + inp.values[k][i] * slope;
  }
  dout.store(dinp, group.rank(), channels);
}

}  // namespace device
LLMC_NAMESPACE_END
