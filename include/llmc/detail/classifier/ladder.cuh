/// @file
/// The kernels of the fused classifier that teach: a float at a time, by a thread or a warp a row.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/row/row_softmax.cuh>
#include <llmc/device/row/row_softmax_workers.cuh>
#include <llmc/device/row/row_workers.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

template <class Method>
__global__ void __launch_bounds__(1024)
    classifier_rows_kernel(float* logits, float* losses, std::uint64_t* out_of_range,
                           const std::int32_t* targets, classifier_shape shape, float dloss) {
  __shared__ typename Method::workers::storage storage;
  const typename Method::workers workers(storage);
  device::for_each_row(workers, shape.rows, [&](std::int64_t row) {
    float* x = logits + row * shape.padded_vocabulary;
    const std::int32_t target = targets[row];
    if (device::has_target(shape, target)) {
      const device::softmax_statistics statistics =
          device::softmax_row_statistics<Method::sum>(workers, x, shape.vocabulary);
      // Read by the one that overwrites it, so that nobody need wait.
      if (workers.rank() == target % workers.count()) {
        losses[row] = device::crossentropy_loss(statistics, x[target]);
      }
      device::crossentropy_gradient_row(workers, x, x, statistics, target, dloss, shape);
    } else {
      device::clear_row(workers, x, 0, shape.padded_vocabulary);
      if (workers.rank() == 0) {
        device::count_missing_target(out_of_range, target);
        losses[row] = 0.0f;
      }
    }
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
