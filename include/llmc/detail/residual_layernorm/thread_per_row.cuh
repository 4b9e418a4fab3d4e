/// @file
/// The residual add with layer normalisation as one writes it first: a thread for each row, and so
/// nothing to share.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/layernorm/forward.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// One instance serves every block size.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    residual_layernorm_forward_by_threads_kernel(layernorm_forward_arrays<residual_input> a,
                                                 row_shape shape, float epsilon) {
  const float channels = static_cast<float>(shape.channels);
  for (std::int64_t row = device::thread_in_grid(); row < shape.rows;
       row += device::threads_in_grid()) {
    const std::int64_t offset = row * shape.channels;
    float* x = a.input.residual + offset;

    float sum = 0.0f;
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      x[c] = a.input.inp1[offset + c] + a.input.inp2[offset + c];
      sum += x[c];
    }
    const float mean = sum / channels;

    float squares = 0.0f;
    for (std::int64_t c = 0; c < shape.channels; ++c) squares += (x[c] - mean) * (x[c] - mean);
    const float rstd = 1.0f / sqrtf(squares / channels + epsilon);

    for (std::int64_t c = 0; c < shape.channels; ++c) {
      a.out[offset + c] = (x[c] - mean) * rstd * a.weight[c] + a.bias[c];
    }
    a.keep(row, {mean, rstd});
  }
}

template <int BlockSize>
void launch_residual_layernorm_forward_by_threads(const char* function,
                                                  const layernorm_forward_arrays<residual_input>& a,
                                                  row_shape shape, float epsilon,
                                                  cudaStream_t stream) {
  launch({function, ceil_div(shape.rows, BlockSize), BlockSize, 0, stream},
         residual_layernorm_forward_by_threads_kernel<1024>, a, shape, epsilon);
}

}  // namespace detail
LLMC_NAMESPACE_END
