/// @file
/// The kernel of gelu_forward. It also follows products that could not apply their GELU themselves.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/elementwise.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/gelu.cuh>
#include <llmc/device/memory/pack.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

struct gelu_forward_operation : elementwise_operation {
  static constexpr int inputs = 1;
  float* out;
  const float* inp;

  template <int Width>
  __device__ void load(device::pack<Width> (&x)[inputs], std::int64_t first) const {
    x[0] = device::load<Width>(inp + first);
  }
  template <int Width>
  __device__ void store(device::pack<Width> (&x)[inputs], std::int64_t first, state) const {
#pragma unroll
    for (int i = 0; i < Width; ++i) x[0][i] = device::gelu(x[0][i]);
    device::store(out + first, x[0]);
  }
};

/// `wide` says whether both arrays can be read 16 bytes at a time.
template <int BlockSize, int Packs>
void launch_gelu_forward(const char* function, float* out, const float* inp, std::int64_t count,
                         bool wide, cudaStream_t stream) {
  launch_elementwise<BlockSize, Packs>(function, count, wide, gelu_forward_operation{{}, out, inp},
                                       stream);
}

}  // namespace detail
LLMC_NAMESPACE_END
