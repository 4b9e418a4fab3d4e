/// @file
/// The encoder as one writes it first. The faster kernels are explained from these and measured
/// against them. One instance of each serves every block size.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/counter.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

__device__ __forceinline__ bool has_token(encoder_shape shape, std::int32_t token) {
  return token >= 0 && token < shape.vocabulary;
}

/// `Width` channels, from `channel` on, of the embedding of one position; `position` is its row of
/// wpe.
template <int Width>
__device__ __forceinline__ device::pack<Width> encoder_channels(const float* wte,
                                                                const float* position,
                                                                std::int32_t token,
                                                                encoder_shape shape,
                                                                std::int64_t channel) {
  device::pack<Width> sum = device::load<Width>(position + channel);
  if (has_token(shape, token)) {
    const auto row = device::load<Width>(wte + token * shape.channels + channel);
#pragma unroll
    for (int i = 0; i < Width; ++i) sum[i] += row[i];
  }
  return sum;
}

/// A thread owns a position.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    encoder_forward_rows_kernel(float* out, std::uint64_t* out_of_range, const std::int32_t* tokens,
                                const float* wte, const float* wpe, encoder_shape shape) {
  const std::int64_t C = shape.channels;
  for (std::int64_t row = device::thread_in_grid(); row < shape.batch * shape.sequence;
       row += device::threads_in_grid()) {
    const std::int32_t token = tokens[row];
    const float* position = wpe + row % shape.sequence * C;
    for (std::int64_t c = 0; c < C; ++c) {
      device::store(out + row * C + c, encoder_channels<1>(wte, position, token, shape, c));
    }
    if (!has_token(shape, token)) device::increment(out_of_range);
  }
}

/// A thread owns `Width` channels of a position. C is a multiple of Width.
template <int Width>
__global__ void __launch_bounds__(1024)
    encoder_forward_packs_kernel(float* out, std::uint64_t* out_of_range,
                                 const std::int32_t* tokens, const float* wte, const float* wpe,
                                 encoder_shape shape) {
  const std::int64_t C = shape.channels;
  const std::int64_t packs = C / Width;  // of a row
  for (std::int64_t i = device::thread_in_grid(); i < shape.batch * shape.sequence * packs;
       i += device::threads_in_grid()) {
    const std::int64_t row = i / packs;
    const std::int64_t c = i % packs * Width;
    const std::int32_t token = tokens[row];
    const float* position = wpe + row % shape.sequence * C;
    device::store(out + i * Width, encoder_channels<Width>(wte, position, token, shape, c));
    if (c == 0 && !has_token(shape, token)) device::increment(out_of_range);
  }
}

/// A thread owns an element of dout and adds it to both tables, beside all other threads.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    encoder_backward_atomics_kernel(float* dwte, float* dwpe, const std::int32_t* tokens,
                                    const float* dout, encoder_shape shape) {
  const std::int64_t C = shape.channels;
  for (std::int64_t i = device::thread_in_grid(); i < shape.batch * shape.sequence * C;
       i += device::threads_in_grid()) {
    const std::int64_t row = i / C;
    const std::int64_t c = i % C;
    const std::int32_t token = tokens[row];
    if (has_token(shape, token)) atomicAdd(dwte + token * C + c, dout[i]);
    atomicAdd(dwpe + row % shape.sequence * C + c, dout[i]);
  }
}

/// A thread owns a channel of both tables and adds to it position by position: nobody else writes
/// there, so plain additions are enough.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    encoder_backward_channels_kernel(float* dwte, float* dwpe, const std::int32_t* tokens,
                                     const float* dout, encoder_shape shape) {
  const std::int64_t C = shape.channels;
  for (std::int64_t c = device::thread_in_grid(); c < C; c += device::threads_in_grid()) {
    for (std::int64_t row = 0; row < shape.batch * shape.sequence; ++row) {
      const std::int32_t token = tokens[row];
      const float d = dout[row * C + c];
      if (has_token(shape, token)) dwte[token * C + c] += d;
      dwpe[row % shape.sequence * C + c] += d;
    }
  }
}

/// Clears a table of the gradient unless it is to be added to.
inline void clear_unless_added_to(const char* function, float* table, std::int64_t rows,
                                  std::int64_t channels, accumulation mode, cudaStream_t stream) {
  const std::size_t bytes = checks::bytes<float>(function, rows, channels);
  if (mode == accumulation::add || bytes == 0) return;
  check_cuda(function, "clearing a gradient", cudaMemsetAsync(table, 0, bytes, stream));
}

/// The gradients by `kernel`, one of those above, which adds to both tables; `threads` threads have
/// something to do.
template <class Kernel>
void launch_encoder_backward_adding(const char* function, Kernel kernel, std::int64_t threads,
                                    int block_size, float* dwte, float* dwpe,
                                    const std::int32_t* tokens, const float* dout,
                                    encoder_shape shape, accumulation dwte_mode,
                                    accumulation dwpe_mode, cudaStream_t stream) {
  clear_unless_added_to(function, dwte, shape.vocabulary, shape.channels, dwte_mode, stream);
  clear_unless_added_to(function, dwpe, shape.sequence, shape.channels, dwpe_mode, stream);
  if (shape.batch * shape.sequence == 0) return;
  launch({function, ceil_div(threads, block_size), block_size, 0, stream}, kernel, dwte, dwpe,
         tokens, dout, shape);
}

}  // namespace detail
LLMC_NAMESPACE_END
