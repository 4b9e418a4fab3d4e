/// @file
/// The kernels of cross-entropy and of the fused classifier, written over the `Scores` in which
/// their variants differ; see detail/row/scores.cuh.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>
#include <type_traits>

#include <llmc/detail/namespace.hpp>
#include <llmc/detail/row/scores.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/crossentropy.cuh>
#include <llmc/device/row/row.cuh>
#include <llmc/device/row/softmax.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The scores of `thread_per_row` and `warp_per_row`, in all launchers of cross-entropy and the
/// classifier.
template <auto Variant>
using crossentropy_rung =
    std::conditional_t<Variant == decltype(Variant)::thread_per_row, thread_in_passes, warp_online>;

template <class Scores>
__global__ void __launch_bounds__(Scores::most_threads, Scores::blocks)
    crossentropy_forward_kernel(float* losses, std::uint64_t* out_of_range, const float* logits,
                                const std::int32_t* targets, classifier_shape shape) {
  using row_group = typename Scores::group;
  __shared__ typename row_group::storage storage;
  const row_group group(storage);
  group.for_each_row(shape.rows, [&](std::int64_t row) {
    const float* x = logits + row * shape.padded_vocabulary;
    const std::int32_t target = targets[row];
    float loss = 0.0f;
    if (device::has_target(shape, target)) {
      auto scores = Scores::row(nullptr, x, shape.vocabulary);
      loss = device::crossentropy_loss(device::softmax_row_statistics<Scores::sum>(group, scores),
                                       x[target]);
    } else if (group.rank() == 0) {
      device::count_missing_target(out_of_range, target);
    }
    if (group.rank() == 0) losses[row] = loss;
  });
}

template <class Scores>
__global__ void __launch_bounds__(Scores::most_threads, Scores::blocks)
    crossentropy_backward_kernel(float* dlogits, loss_gradient dlosses, const float* logits,
                                 const std::int32_t* targets, classifier_shape shape) {
  using row_group = typename Scores::group;
  extern __shared__ __align__(16) float rest_of_row[];
  __shared__ typename row_group::storage storage;
  const row_group group(storage);
  group.for_each_row(shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.padded_vocabulary;
    const std::int32_t target = targets[row];
    const float dloss = device::dloss_at(dlosses, row);  // here, or the row's loads wait for it
    if (device::has_target(shape, target)) {
      auto scores = Scores::row(rest_of_row, logits + offset, shape.vocabulary);
      const auto statistics = device::softmax_row_statistics<Scores::sum>(group, scores);
      device::crossentropy_gradient<Scores::sum>(group, dlogits + offset, scores, statistics,
                                                 target, dloss, shape);
    } else {
      device::clear_row<Scores::width>(group, device::streamed{dlogits + offset}, 0,
                                       shape.padded_vocabulary);
    }
  });
}

/// Losses and gradients at once; the gradients overwrite the logits.
template <class Scores>
__global__ void __launch_bounds__(Scores::most_threads, Scores::blocks)
    classifier_kernel(float* logits, float* losses, std::uint64_t* out_of_range,
                      const std::int32_t* targets, classifier_shape shape, loss_gradient dlosses) {
  using row_group = typename Scores::group;
  extern __shared__ __align__(16) float rest_of_row[];
  __shared__ typename row_group::storage storage;
  const row_group group(storage);
  group.for_each_row(shape.rows, [&](std::int64_t row) {
    float* x = logits + row * shape.padded_vocabulary;
    const std::int32_t target = targets[row];
    float loss = 0.0f;
    if (device::has_target(shape, target)) {
      auto scores = Scores::row(rest_of_row, x, shape.vocabulary);
      const float target_logit = x[target];  // which the gradient overwrites
      group.finish_reading();
      const auto statistics = device::softmax_row_statistics<Scores::sum>(group, scores);
      device::crossentropy_gradient<Scores::sum>(group, x, scores, statistics, target,
                                                 device::dloss_at(dlosses, row), shape);
      loss = device::crossentropy_loss(statistics, target_logit);
    } else {
      device::clear_row<Scores::width>(group, device::streamed{x}, 0, shape.padded_vocabulary);
      if (group.rank() == 0) device::count_missing_target(out_of_range, target);
    }
    if (group.rank() == 0) losses[row] = loss;
  });
}

// ---- thread_per_element ----

/// The first of two kernels: writes the probabilities to `dlogits`, by a thread a row. The padding
/// is left to the second kernel.
template <class Scores>
__global__ void __launch_bounds__(Scores::most_threads)
    crossentropy_probabilities_kernel(float* dlogits, const float* logits, classifier_shape shape) {
  using row_group = typename Scores::group;
  const row_group group;
  group.for_each_row(shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.padded_vocabulary;
    auto scores = Scores::row(nullptr, logits + offset, shape.vocabulary);
    device::softmax_row<Scores::sum>(group, dlogits + offset, scores);
  });
}

/// The second: turns the probabilities in `dlogits` into gradients, by a thread an element.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    crossentropy_elements_kernel(float* dlogits, loss_gradient dlosses, const std::int32_t* targets,
                                 classifier_shape shape) {
  const std::int64_t count = shape.rows * shape.padded_vocabulary;
  for (std::int64_t i = device::thread_in_grid(); i < count; i += device::threads_in_grid()) {
    const std::int64_t row = i / shape.padded_vocabulary;
    const std::int64_t c = i % shape.padded_vocabulary;
    const std::int32_t target = targets[row];
    float d = 0.0f;
    if (c < shape.vocabulary && device::has_target(shape, target)) {
      const float p = dlogits[i];
      d = (c == target ? p - 1.0f : p) * device::dloss_at(dlosses, row);
    }
    dlogits[i] = d;
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
