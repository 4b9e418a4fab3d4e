/// @file
/// The kernels of layer normalisation in which a block owns a row and keeps in shared memory what
/// it needs again: the row itself, or the sums over its rows. Each thread finds there only what it
/// put there itself, so none of it waits for a barrier.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include <llmc/detail/column_sum.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/layernorm/forward_arrays.cuh>
#include <llmc/detail/layernorm/in_registers.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/row_workers.cuh>
#include <llmc/error.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The channels of the longest row of which `arrays` copies fit in a block's shared memory.
inline std::int64_t most_channels_in_shared_memory(const char* function, int arrays) {
  const int bytes = device_attribute(function, cudaDevAttrMaxSharedMemoryPerBlockOptin) -
                    static_cast<int>(sizeof(device::whole_block::storage));
  return bytes / (arrays * static_cast<int>(sizeof(float)));
}

/// The shared memory for `arrays` copies of a row, or unsupported, which names the variant.
inline std::size_t shared_bytes_of_row(const char* function, const char* variant,
                                       std::int64_t channels, int arrays) {
  const std::int64_t most = most_channels_in_shared_memory(function, arrays);
  if (channels > most) {
    throw unsupported(std::string(function) + ": the variant " + variant + " takes at most " +
                      std::to_string(most) + " channels on this device, got " +
                      std::to_string(channels));
  }
  return static_cast<std::size_t>(arrays * channels) * sizeof(float);
}

// ---- forward ----

template <int Width, int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    layernorm_forward_shared_kernel(layernorm_forward_arrays a, row_shape shape, float epsilon) {
  extern __shared__ __align__(16) float kept_in_shared_memory[];
  __shared__ device::whole_block::storage storage;
  const device::whole_block block(storage);
  const float channels = static_cast<float>(shape.channels);
  float* row = kept_in_shared_memory;
  const auto for_each_pack = [&](auto body) {
    device::for_each_pack<Width>(shape.channels, block.rank(), block.count(), body);
  };
  for (std::int64_t r = blockIdx.x; r < shape.rows; r += gridDim.x) {
    const std::int64_t offset = r * shape.channels;
    float sum = 0.0f;
    for_each_pack([&](auto width, std::int64_t c) {
      const auto x = device::load<width()>(a.inp + offset + c);
      device::store(row + c, x);
      for (int i = 0; i < width(); ++i) sum += x[i];
    });
    const float mean = block.sum(sum) / channels;

    float squares = 0.0f;
    for_each_pack([&](auto width, std::int64_t c) {
      const auto x = device::load<width()>(row + c);
      for (int i = 0; i < width(); ++i) squares += (x[i] - mean) * (x[i] - mean);
    });
    const float rstd = 1.0f / sqrtf(block.sum(squares) / channels + epsilon);

    for_each_pack([&](auto width, std::int64_t c) {
      auto x = device::load<width()>(row + c);
      const auto w = device::load<width()>(a.weight + c);
      const auto b = device::load<width()>(a.bias + c);
      for (int i = 0; i < width(); ++i) x[i] = (x[i] - mean) * rstd * w[i] + b[i];
      device::store(a.out + offset + c, x);
    });
    if (threadIdx.x == 0) a.keep(r, {mean, rstd});
  }
}

template <int BlockSize>
void launch_layernorm_forward_shared(const char* function, const char* variant,
                                     const layernorm_forward_arrays& a, row_shape shape,
                                     float epsilon, cudaStream_t stream) {
  const std::size_t bytes = shared_bytes_of_row(function, variant, shape.channels, 1);
  with_access_width(a.wide(shape), [&](auto width) {
    launch({function, shape.rows, BlockSize, bytes, stream},
           layernorm_forward_shared_kernel<width(), 1024>, a, shape, epsilon);
  });
}

// ---- backward ----

/// dinp, and each block's share of dweight and dbias, for column_sum_total. A thread owns channels.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    layernorm_backward_shared_kernel(layernorm_backward_arrays a, row_shape shape) {
  extern __shared__ __align__(16) float kept_in_shared_memory[];
  __shared__ device::whole_block::storage storage;
  const device::whole_block block(storage);
  const float channels = static_cast<float>(shape.channels);
  float* dweight = kept_in_shared_memory;
  float* dbias = dweight + shape.channels;
  const auto for_each_channel = [&](auto body) {
    for (std::int64_t c = block.rank(); c < shape.channels; c += block.count()) body(c);
  };
  for_each_channel([&](std::int64_t c) { dweight[c] = dbias[c] = 0.0f; });

  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t offset = row * shape.channels;
    const float mean = a.mean[row];
    const float rstd = a.rstd[row];
    float dnorm_sum = 0.0f;
    float dnorm_norm_sum = 0.0f;
    for_each_channel([&](std::int64_t c) {
      const float d = a.dout[offset + c];
      const float norm = (a.inp[offset + c] - mean) * rstd;
      dweight[c] += d * norm;
      dbias[c] += d;
      dnorm_sum += d * a.weight[c];
      dnorm_norm_sum += d * a.weight[c] * norm;
    });
    const float dnorm_mean = block.sum(dnorm_sum) / channels;
    const float dnorm_norm_mean = block.sum(dnorm_norm_sum) / channels;

    for_each_channel([&](std::int64_t c) {
      const float norm = (a.inp[offset + c] - mean) * rstd;
      const float dnorm = a.dout[offset + c] * a.weight[c];
      const float through_norm = (dnorm - dnorm_mean - norm * dnorm_norm_mean) * rstd;
      a.dinp[offset + c] = (a.addend == nullptr ? 0.0f : a.addend[offset + c]) + through_norm;
    });
  }

  float* partials =
      static_cast<float*>(a.workspace) + static_cast<std::int64_t>(blockIdx.x) * 2 * shape.channels;
  for_each_channel([&](std::int64_t c) {
    partials[c] = dweight[c];
    partials[shape.channels + c] = dbias[c];
  });
}

/// As many blocks as the workspace has room for, whatever the block size.
template <int BlockSize>
void launch_layernorm_backward_shared(const char* function, const char* variant,
                                      const layernorm_backward_arrays& a, row_shape shape,
                                      accumulation mode, cudaStream_t stream) {
  const std::size_t bytes = shared_bytes_of_row(function, variant, shape.channels, 2);
  const std::int64_t blocks = layernorm_backward_blocks(shape, device::warp_size);
  launch({function, blocks, BlockSize, bytes, stream}, layernorm_backward_shared_kernel<1024>, a,
         shape);
  column_sum_total<2>(function, {{a.dweight, a.dbias}}, static_cast<const float*>(a.workspace),
                      shape.channels, blocks, mode, stream);
}

}  // namespace detail
LLMC_NAMESPACE_END
