/// @file
/// The kernels of cross-entropy that teach: a float at a time, by a thread or a warp a row, or by a
/// thread an element of probabilities that were written out before.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>
#include <type_traits>

#include <llmc/detail/namespace.hpp>
#include <llmc/detail/softmax/row_method.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/row_softmax.cuh>
#include <llmc/device/row/row_softmax_workers.cuh>
#include <llmc/device/row/row_workers.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

using plain_thread_method = row_method<device::lone_thread, device::softmax_sum::after_maximum>;
using online_warp_method = row_method<device::whole_warp, device::softmax_sum::online>;

/// Of `thread_per_row` and `warp_per_row`, in all launchers of cross-entropy and the classifier.
template <auto Variant>
using crossentropy_method = std::conditional_t<Variant == decltype(Variant)::thread_per_row,
                                               plain_thread_method, online_warp_method>;

template <class Method>
__global__ void __launch_bounds__(1024)
    crossentropy_forward_rows_kernel(float* losses, std::uint64_t* out_of_range,
                                     const float* logits, const std::int32_t* targets,
                                     classifier_shape shape) {
  __shared__ typename Method::workers::storage storage;
  const typename Method::workers workers(storage);
  device::for_each_row(workers, shape.rows, [&](std::int64_t row) {
    const float* x = logits + row * shape.padded_vocabulary;
    const std::int32_t target = targets[row];
    float loss = 0.0f;
    if (device::has_target(shape, target)) {
      loss = device::crossentropy_loss(
          device::softmax_row_statistics<Method::sum>(workers, x, shape.vocabulary), x[target]);
    } else if (workers.rank() == 0) {
      device::count_missing_target(out_of_range, target);
    }
    if (workers.rank() == 0) losses[row] = loss;
  });
}

/// The gradients of the rows' losses: each its own, or all the same.
struct dloss_of_each {
  const float* values;
  __device__ float operator()(std::int64_t row) const { return values[row]; }
};
struct dloss_of_all {
  float value;
  __device__ float operator()(std::int64_t) const { return value; }
};

template <class Method, class Dloss>
__global__ void __launch_bounds__(1024)
    crossentropy_backward_rows_kernel(float* dlogits, Dloss dloss, const float* logits,
                                      const std::int32_t* targets, classifier_shape shape) {
  __shared__ typename Method::workers::storage storage;
  const typename Method::workers workers(storage);
  device::for_each_row(workers, shape.rows, [&](std::int64_t row) {
    const float* x = logits + row * shape.padded_vocabulary;
    float* dx = dlogits + row * shape.padded_vocabulary;
    const std::int32_t target = targets[row];
    if (device::has_target(shape, target)) {
      const device::softmax_statistics statistics =
          device::softmax_row_statistics<Method::sum>(workers, x, shape.vocabulary);
      device::crossentropy_gradient_row(workers, dx, x, statistics, target, dloss(row), shape);
    } else {
      device::clear_row(workers, dx, 0, shape.padded_vocabulary);
    }
  });
}

/// The first of two kernels: writes the probabilities out. `probabilities` may be `logits`.
template <class Method>
__global__ void __launch_bounds__(1024)
    crossentropy_probabilities_kernel(float* probabilities, const float* logits,
                                      classifier_shape shape) {
  __shared__ typename Method::workers::storage storage;
  const typename Method::workers workers(storage);
  device::for_each_row(workers, shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.padded_vocabulary;
    device::softmax_row<Method::sum>(workers, probabilities + offset, logits + offset,
                                     shape.vocabulary);
  });
}

/// The second: turns the probabilities in `dlogits` into gradients, by a thread an element.
template <class Dloss>
__global__ void __launch_bounds__(1024)
    crossentropy_elements_kernel(float* dlogits, Dloss dloss, const std::int32_t* targets,
                                 classifier_shape shape) {
  const std::int64_t count = shape.rows * shape.padded_vocabulary;
  for (std::int64_t i = device::thread_in_grid(); i < count; i += device::threads_in_grid()) {
    const std::int64_t row = i / shape.padded_vocabulary;
    const std::int64_t c = i % shape.padded_vocabulary;
    const std::int32_t target = targets[row];
    float d = 0.0f;
    if (c < shape.vocabulary && device::has_target(shape, target)) {
      const float p = dlogits[i];
      d = (c == target ? p - 1.0f : p) * dloss(row);
    }
    dlogits[i] = d;
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
