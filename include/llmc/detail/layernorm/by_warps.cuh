/// @file
/// The kernels of layer normalisation in which a warp owns a row and finds it in memory, or in the
/// cache, at each pass.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/column_sum.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/layernorm/forward_arrays.cuh>
#include <llmc/detail/layernorm/in_registers.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/layernorm_row.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

// ---- forward ----

template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    layernorm_forward_kernel(float* out, float* mean, float* rstd, const float* inp,
                             const float* weight, const float* bias, row_shape shape,
                             float epsilon) {
  for (std::int64_t row = device::thread_in_grid() / device::warp_size; row < shape.rows;
       row += device::threads_in_grid() / device::warp_size) {
    const std::int64_t offset = row * shape.channels;
    const device::row_statistics statistics =
        device::layernorm_row_statistics<Width>(inp + offset, shape.channels, epsilon);
    device::layernorm_row_apply<Width>(out + offset, inp + offset, weight, bias, shape.channels,
                                       statistics);
    if (threadIdx.x % device::warp_size == 0) {
      if (mean != nullptr) mean[row] = statistics.mean;
      if (rstd != nullptr) rstd[row] = statistics.rstd;
    }
  }
}

template <int BlockSize>
void launch_layernorm_forward_by_warps(const char* function, const layernorm_forward_arrays& a,
                                       row_shape shape, float epsilon, cudaStream_t stream) {
  with_access_width(a.wide(shape), [&](auto width) {
    const std::int64_t blocks = ceil_div(shape.rows, BlockSize / device::warp_size);
    launch({function, blocks, BlockSize, 0, stream}, layernorm_forward_kernel<width(), BlockSize>,
           a.out, a.mean, a.rstd, a.inp, a.weight, a.bias, shape, epsilon);
  });
}

/// layernorm_forward_kernel with one pass less; one instance serves every block size.
template <int Width, int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    layernorm_forward_one_pass_kernel(layernorm_forward_arrays a, row_shape shape, float epsilon) {
  for (std::int64_t row = device::thread_in_grid() / device::warp_size; row < shape.rows;
       row += device::threads_in_grid() / device::warp_size) {
    const std::int64_t offset = row * shape.channels;
    const device::row_statistics statistics = device::layernorm_row_statistics_in_one_pass<Width>(
        a.inp + offset, shape.channels, epsilon);
    device::layernorm_row_apply<Width>(a.out + offset, a.inp + offset, a.weight, a.bias,
                                       shape.channels, statistics);
    if (threadIdx.x % device::warp_size == 0) a.keep(row, statistics);
  }
}

template <int BlockSize>
void launch_layernorm_forward_one_pass(const char* function, const layernorm_forward_arrays& a,
                                       row_shape shape, float epsilon, cudaStream_t stream) {
  with_access_width(a.wide(shape), [&](auto width) {
    const std::int64_t blocks = ceil_div(shape.rows, BlockSize / device::warp_size);
    launch({function, blocks, BlockSize, 0, stream},
           layernorm_forward_one_pass_kernel<width(), 1024>, a, shape, epsilon);
  });
}

// ---- backward ----

template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    layernorm_backward_kernel(float* dinp, const float* addend, const float* dout, const float* inp,
                              const float* weight, const float* mean, const float* rstd,
                              row_shape shape) {
  for (std::int64_t row = device::thread_in_grid() / device::warp_size; row < shape.rows;
       row += device::threads_in_grid() / device::warp_size) {
    const std::int64_t offset = row * shape.channels;
    device::layernorm_backward_row<Width>(
        dinp + offset, addend == nullptr ? nullptr : addend + offset, dout + offset, inp + offset,
        weight, shape.channels, {mean[row], rstd[row]});
  }
}

/// The parameters' gradients come first, because dinp may overwrite dout.
template <int BlockSize>
void launch_layernorm_backward_by_warps(const char* function, const layernorm_backward_arrays& a,
                                        row_shape shape, accumulation mode, bool wide,
                                        cudaStream_t stream) {
  column_sum<2, BlockSize>(
      function, {{a.dweight, a.dbias}}, a.workspace, shape,
      is_16_byte_accessible(shape.channels, a.dout, a.inp),
      device::layernorm_parameter_gradient{a.dout, a.inp, a.mean, a.rstd, shape.channels}, mode,
      stream);
  with_access_width(wide, [&](auto width) {
    const std::int64_t blocks = ceil_div(shape.rows, BlockSize / device::warp_size);
    launch({function, blocks, BlockSize, 0, stream}, layernorm_backward_kernel<width(), BlockSize>,
           a.dinp, a.addend, a.dout, a.inp, a.weight, a.mean, a.rstd, shape);
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
