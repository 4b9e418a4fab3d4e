/// @file
/// The residual add, for residual.cuh and for residual_layernorm's separate passes.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/elementwise.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

struct residual_forward_operation : elementwise_operation {
  static constexpr int inputs = 2;
  float* out;
  const float* inp1;
  const float* inp2;

  template <int Width>
  __device__ void load(device::pack<Width> (&x)[inputs], std::int64_t first) const {
    x[0] = device::load<Width>(inp1 + first);
    x[1] = device::load<Width>(inp2 + first);
  }
  template <int Width>
  __device__ void store(device::pack<Width> (&x)[inputs], std::int64_t first, state) const {
#pragma unroll
    for (int i = 0; i < Width; ++i) x[0][i] += x[1][i];
    device::store(out + first, x[0]);
  }
};

}  // namespace detail
LLMC_NAMESPACE_END
