/// @file
/// The kernels of softmax that teach: a float at a time, by a thread, a block or a warp a row.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/detail/softmax/row_method.cuh>
#include <llmc/device/row/row_softmax_workers.cuh>
#include <llmc/device/row/row_workers.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

template <class Method>
__global__ void __launch_bounds__(1024)
    softmax_forward_rows_kernel(float* out, const float* inp, row_shape shape) {
  __shared__ typename Method::workers::storage storage;
  const typename Method::workers workers(storage);
  device::for_each_row(workers, shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.channels;
    device::softmax_row<Method::sum>(workers, out + offset, inp + offset, shape.channels);
  });
}

template <class Workers>
__global__ void __launch_bounds__(1024)
    softmax_backward_rows_kernel(float* dinp, const float* dout, const float* out,
                                 row_shape shape) {
  __shared__ typename Workers::storage storage;
  const Workers workers(storage);
  device::for_each_row(workers, shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.channels;
    device::softmax_backward_row(workers, dinp + offset, dout + offset, out + offset,
                                 shape.channels);
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
