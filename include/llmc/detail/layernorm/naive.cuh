/// @file
/// Layer normalisation as one writes it first: a thread for each row, and a kernel for each sum.
/// One instance of each kernel serves every block size.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/layernorm/backward.cuh>
#include <llmc/detail/layernorm/forward.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/layernorm.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/error.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

// ---- forward, a thread for each row ----

template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    layernorm_forward_by_threads_kernel(layernorm_forward_arrays<layernorm_input> a,
                                        row_shape shape, float epsilon) {
  const float channels = static_cast<float>(shape.channels);
  for (std::int64_t row = device::thread_in_grid(); row < shape.rows;
       row += device::threads_in_grid()) {
    const float* inp = a.input.inp + row * shape.channels;
    float* out = a.out + row * shape.channels;

    float sum = 0.0f;
    for (std::int64_t c = 0; c < shape.channels; ++c) sum += inp[c];
    const float mean = sum / channels;

    float squares = 0.0f;
    for (std::int64_t c = 0; c < shape.channels; ++c) squares += (inp[c] - mean) * (inp[c] - mean);
    const float rstd = 1.0f / sqrtf(squares / channels + epsilon);

    for (std::int64_t c = 0; c < shape.channels; ++c) {
      out[c] = (inp[c] - mean) * rstd * a.weight[c] + a.bias[c];
    }
    a.keep(row, {mean, rstd});
  }
}

template <int BlockSize>
void launch_layernorm_forward_by_threads(const char* function,
                                         const layernorm_forward_arrays<layernorm_input>& a,
                                         row_shape shape, float epsilon, cudaStream_t stream) {
  launch({function, ceil_div(shape.rows, BlockSize), BlockSize, 0, stream},
         layernorm_forward_by_threads_kernel<1024>, a, shape, epsilon);
}

// ---- forward, a kernel for each step ----

/// The sum over a block of at most MostThreads threads. All threads must call it, and all get the
/// sum. As long as `shared` has more than one number, the upper half is added to the lower half.
template <int MostThreads>
__device__ __forceinline__ float halving_sum(float value, float (&shared)[MostThreads]) {
  const unsigned rank = threadIdx.x;
  shared[rank] = value;
  __syncthreads();
  for (unsigned count = blockDim.x; count > 1;) {
    const unsigned half = (count + 1) / 2;
    if (rank + half < count) shared[rank] += shared[rank + half];
    __syncthreads();
    count = half;
  }
  const float sum = shared[0];
  __syncthreads();  // before the next call overwrites it
  return sum;
}

template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    layernorm_mean_kernel(float* mean, const float* inp, row_shape shape) {
  __shared__ float shared[MostThreads];
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const float* x = inp + row * shape.channels;
    float sum = 0.0f;
    for (std::int64_t c = threadIdx.x; c < shape.channels; c += blockDim.x) sum += x[c];
    sum = halving_sum(sum, shared);
    if (threadIdx.x == 0) mean[row] = sum / static_cast<float>(shape.channels);
  }
}

template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    layernorm_rstd_kernel(float* rstd, const float* mean, const float* inp, row_shape shape,
                          float epsilon) {
  __shared__ float shared[MostThreads];
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const float* x = inp + row * shape.channels;
    const float m = mean[row];
    float squares = 0.0f;
    for (std::int64_t c = threadIdx.x; c < shape.channels; c += blockDim.x) {
      squares += (x[c] - m) * (x[c] - m);
    }
    squares = halving_sum(squares, shared);
    if (threadIdx.x == 0) {
      rstd[row] = 1.0f / sqrtf(squares / static_cast<float>(shape.channels) + epsilon);
    }
  }
}

/// A thread for each element.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    layernorm_normalise_kernel(layernorm_forward_arrays<layernorm_input> a, row_shape shape) {
  for (std::int64_t i = device::thread_in_grid(); i < shape.rows * shape.channels;
       i += device::threads_in_grid()) {
    const std::int64_t row = i / shape.channels;
    const std::int64_t c = i % shape.channels;
    a.out[i] = (a.input.inp[i] - a.mean[row]) * a.rstd[row] * a.weight[c] + a.bias[c];
  }
}

template <int BlockSize>
void launch_layernorm_forward_in_three(const char* function,
                                       const layernorm_forward_arrays<layernorm_input>& a,
                                       row_shape shape, float epsilon, cudaStream_t stream) {
  if (a.mean == nullptr || a.rstd == nullptr) {
    throw unsupported(std::string(function) +
                      ": the variant three_kernels hands mean and rstd from kernel to kernel, so "
                      "neither may be null");
  }
  launch({function, shape.rows, BlockSize, 0, stream}, layernorm_mean_kernel<1024>, a.mean,
         a.input.inp, shape);
  launch({function, shape.rows, BlockSize, 0, stream}, layernorm_rstd_kernel<1024>, a.rstd, a.mean,
         a.input.inp, shape, epsilon);
  launch({function, ceil_div(shape.rows * shape.channels, BlockSize), BlockSize, 0, stream},
         layernorm_normalise_kernel<1024>, a, shape);
}

// ---- backward, a thread for each row ----

/// The gradient of one row with respect to its input, by one thread; see
/// device::layernorm_gradient.
__device__ __forceinline__ void layernorm_backward_row_by_thread(
    float* dinp, const float* addend, const float* dout, const float* inp, const float* weight,
    std::int64_t channels, device::row_statistics statistics) {
  float dnorm_sum = 0.0f;
  float dnorm_norm_sum = 0.0f;
  for (std::int64_t c = 0; c < channels; ++c) {
    const float dnorm = dout[c] * weight[c];
    dnorm_sum += dnorm;
    dnorm_norm_sum += dnorm * ((inp[c] - statistics.mean) * statistics.rstd);
  }
  const float dnorm_mean = dnorm_sum / static_cast<float>(channels);
  const float dnorm_norm_mean = dnorm_norm_sum / static_cast<float>(channels);

  for (std::int64_t c = 0; c < channels; ++c) {
    const float norm = (inp[c] - statistics.mean) * statistics.rstd;
    const float through_norm = dout[c] * weight[c] - dnorm_mean - norm * dnorm_norm_mean;
    dinp[c] = (addend == nullptr ? 0.0f : addend[c]) + through_norm * statistics.rstd;
  }
}

/// The threads of a warp are at the same channel at the same time. So they add up their rows' terms
/// first, and one of them adds the sum to memory: one atomic addition for 32 rows. Threads without
/// a row stay with their warp and add 0.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    layernorm_backward_by_threads_kernel(layernorm_backward_arrays a, row_shape shape) {
  const layernorm_parameter_terms terms{a.dout, a.inp, a.mean, a.rstd, shape.channels};
  const int lane = static_cast<int>(threadIdx.x) % device::warp_size;
  for (std::int64_t first = device::thread_in_grid() - lane; first < shape.rows;
       first += device::threads_in_grid()) {
    const std::int64_t row = first + lane;
    const bool has_row = row < shape.rows;
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      device::pack<1> values[2] = {};
      if (has_row) terms(row, c, values);
      const float dweight = device::warp_sum(values[0][0]);
      const float dbias = device::warp_sum(values[1][0]);
      if (lane == 0) {
        atomicAdd(a.dweight + c, dweight);
        atomicAdd(a.dbias + c, dbias);
      }
    }
    if (has_row) {  // last, because dinp may overwrite dout
      const std::int64_t offset = row * shape.channels;
      layernorm_backward_row_by_thread(a.dinp + offset, a.addend_at(offset), a.dout + offset,
                                       a.inp + offset, a.weight, shape.channels,
                                       {a.mean[row], a.rstd[row]});
    }
  }
}

template <int BlockSize>
void launch_layernorm_backward_by_threads(const char* function, const layernorm_backward_arrays& a,
                                          row_shape shape, accumulation mode, cudaStream_t stream) {
  if (mode == accumulation::overwrite) {
    const std::size_t bytes = checks::bytes<float>(function, shape.channels);
    for (float* gradient : {a.dweight, a.dbias}) {
      check_cuda(function, "clearing a gradient", cudaMemsetAsync(gradient, 0, bytes, stream));
    }
  }
  launch({function, ceil_div(shape.rows, BlockSize), BlockSize, 0, stream},
         layernorm_backward_by_threads_kernel<1024>, a, shape);
}

}  // namespace detail
LLMC_NAMESPACE_END
