/// @file
/// Cross-entropy of a row of logits against one target column and its gradient, by any group and
/// wherever the row lives. Used by crossentropy.cuh and classifier.cuh.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/counter.cuh>
#include <llmc/device/row/row.cuh>
#include <llmc/device/row/softmax.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// Whether a target is a column; else its row takes part in nothing.
__device__ __forceinline__ bool has_target(classifier_shape shape, std::int32_t target) {
  return target >= 0 && target < shape.vocabulary;
}

/// Counts a target for which has_target is false, unless it is there on purpose.
__device__ __forceinline__ void count_missing_target(std::uint64_t* counter, std::int32_t target) {
  if (target != ignored_target) increment(counter);
}

/// What the gradient of a row's loss is multiplied by.
__device__ __forceinline__ float dloss_at(loss_gradient dlosses, std::int64_t row) {
  return dlosses.of_row == nullptr ? dlosses.scale : dlosses.scale * dlosses.of_row[row];
}

/// The cross-entropy of a row: log(sum(exp(scores))) - target_score. Never the logarithm of a
/// probability, which may have been rounded to 0.
__device__ __forceinline__ float crossentropy_loss(softmax_statistics statistics,
                                                   float target_score) {
  return (statistics.max - target_score) + logf(statistics.sum);
}

/// The gradient of a row's cross-entropy, (softmax(logits) - onehot(target)) * dloss, from the
/// statistics that softmax_row_statistics<Sum> found; 0 in the padding. `dlogits` may be the row's
/// own array. The target's p - 1 is formed once, before it is scaled, so that it loses no digits
/// where p is near 1.
template <softmax_sum Sum, class Group, class Row>
__device__ __forceinline__ void crossentropy_gradient(const Group& group, float* dlogits, Row& row,
                                                      softmax_statistics statistics,
                                                      std::int32_t target, float dloss,
                                                      classifier_shape shape) {
  const softmax_probability<Sum> probability(statistics);
  row.write(streamed{dlogits}, [&](auto& x, auto where) {
#pragma unroll
    for (int i = 0; i < where.width; ++i) {
      const float p = probability(x[i]);
      x[i] = where.holds(i) ? (where.column + i == target ? p - 1.0f : p) * dloss : 0.0f;
    }
  });
  clear_row<Row::end_width>(group, streamed{dlogits}, row.end(), shape.padded_vocabulary);
}

}  // namespace device
LLMC_NAMESPACE_END
