/// @file
/// A block's work on one row of scores: the statistics from which softmax, cross-entropy and their
/// gradients follow. Used by softmax.cuh, crossentropy.cuh and classifier.cuh.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/counter.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// The maximum of some scores and the sum of exp(score - max). Of no scores: -infinity and 0.
struct softmax_statistics {
  float max;
  float sum;
};

/// What is subtracted inside the exponentials. Where the maximum is still -infinity, 0 will do:
/// every exponential is then 0 as it should be, and no -inf - -inf turns a later result to NaN.
__device__ __forceinline__ float softmax_shift(float max) {
  return max == minus_infinity() ? 0.0f : max;
}

/// Takes some packs of scores into the statistics; a NaN goes into the sum and so into every
/// result. The sum is rescaled even where the maximum did not grow: a branch would keep the next
/// loads waiting for it.
template <int Width, int Packs>
__device__ __forceinline__ void softmax_add(softmax_statistics& statistics,
                                            const pack<Width> (&scores)[Packs]) {
  const float old_max = statistics.max;
#pragma unroll
  for (int j = 0; j < Packs; ++j) {
#pragma unroll
    for (int i = 0; i < Width; ++i) statistics.max = fmaxf(statistics.max, scores[j][i]);
  }
  const float shift = softmax_shift(statistics.max);
  statistics.sum *= expf(old_max - shift);
#pragma unroll
  for (int j = 0; j < Packs; ++j) {
#pragma unroll
    for (int i = 0; i < Width; ++i) statistics.sum += expf(scores[j][i] - shift);
  }
}

/// The statistics of a row, by a block that reads it once; every thread gets them. The row may be
/// overwritten right after. A row of -infinity alone or with a +infinity or a NaN in it has no
/// softmax: the results that are formed from its statistics are NaN, as by the formula.
template <int Width, int BlockSize>
__device__ softmax_statistics
softmax_row_statistics(const float* row, std::int64_t count,
                       typename block_reducer<float, BlockSize>::storage& storage) {
  softmax_statistics statistics{minus_infinity(), 0.0f};
  for_each_batch<Width, 4>(count, threadIdx.x, BlockSize,
                           [&](auto width, auto batch, std::int64_t c, std::int64_t step) {
                             pack<width()> scores[batch()];
                             load_batch(scores, row + c, step);
                             softmax_add(statistics, scores);
                           });
  block_reducer<float, BlockSize> reducer(storage);
  const float max = reducer.max(statistics.max);
  return {max, reducer.sum(statistics.sum * expf(statistics.max - softmax_shift(max)))};
}

/// Whether a target is a column; else its row takes part in nothing.
__device__ __forceinline__ bool has_target(classifier_shape shape, std::int32_t target) {
  return target >= 0 && target < shape.vocabulary;
}

/// Counts a target for which has_target is false, unless it is there on purpose.
__device__ __forceinline__ void count_missing_target(std::uint64_t* counter, std::int32_t target) {
  if (target != ignored_target) increment(counter);
}

/// The cross-entropy of a row: log(sum(exp(scores))) - target_score. Never the logarithm of a
/// probability, which may have been rounded to 0.
__device__ __forceinline__ float crossentropy_loss(softmax_statistics statistics,
                                                   float target_score) {
  return (statistics.max - target_score) + logf(statistics.sum);
}

/// The gradient of a row's cross-entropy, (softmax(logits) - onehot(target)) * dloss, by a block;
/// 0 in the padding. `dlogits` may be `logits`. The target's p - 1 is formed once, before it is
/// scaled, so that it loses no digits where p is near 1.
template <int Width, int BlockSize>
__device__ void crossentropy_gradient_row(float* dlogits, const float* logits,
                                          softmax_statistics statistics, std::int32_t target,
                                          float dloss, classifier_shape shape) {
  const float scale = 1.0f / statistics.sum;
  for_each_pack_reversed<Width>(shape.vocabulary, threadIdx.x, BlockSize,
                                [&](auto width, std::int64_t c) {
                                  auto x = load<width()>(logits + c);
                                  for (int i = 0; i < width(); ++i) {
                                    const float p = expf(x[i] - statistics.max) * scale;
                                    x[i] = (c + i == target ? p - 1.0f : p) * dloss;
                                  }
                                  store_streaming<width()>(dlogits + c, x);
                                });
  for (std::int64_t c = shape.vocabulary + threadIdx.x; c < shape.padded_vocabulary;
       c += BlockSize) {
    dlogits[c] = 0.0f;
  }
}

/// The gradient of a row without a target: 0, by a block.
template <int Width, int BlockSize>
__device__ void clear_row(float* row, std::int64_t count) {
  for_each_pack<Width>(count, threadIdx.x, BlockSize,
                       [&](auto width, std::int64_t c) { store_streaming<width()>(row + c, {}); });
}

}  // namespace device
LLMC_NAMESPACE_END
