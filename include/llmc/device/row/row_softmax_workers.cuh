/// @file
/// Softmax, cross-entropy and their gradients on one row of scores by a thread, a warp or a block
/// (see row_workers.cuh), a float at a time. row_softmax.cuh and row_on_chip.cuh have what a block
/// does faster. The worker of rank r takes columns r, r + count and so on, in every function here.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/device/row/row_softmax.cuh>
#include <llmc/device/row/row_workers.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// How the statistics of a row are found.
enum class softmax_sum {
  after_maximum,  ///< The maximum first, then the sum: two passes over the row.
  online          ///< Both in one pass; the sum is rescaled when the maximum grows (Milakov and
                  ///< Gimelshein, "Online normalizer calculation for softmax", 2018).
};

/// The maximum of a row and the sum of exp(score - maximum); every worker gets them. A row of
/// -infinity alone or with a +infinity or a NaN in it has no softmax: the results that are formed
/// from its statistics are NaN, as by the formula.
template <softmax_sum Sum, class Workers>
__device__ softmax_statistics softmax_row_statistics(const Workers& workers, const float* row,
                                                     std::int64_t count) {
  if constexpr (Sum == softmax_sum::after_maximum) {
    float share = minus_infinity();
    for (std::int64_t c = workers.rank(); c < count; c += workers.count()) {
      share = fmaxf(share, row[c]);
    }
    const float max = workers.max(share);
    float sum = 0.0f;
    for (std::int64_t c = workers.rank(); c < count; c += workers.count()) {
      sum += expf(row[c] - max);
    }
    return {max, workers.sum(sum)};
  } else {
    // By four: as many loads are on their way, and the sum is rescaled once for them.
    softmax_statistics share{minus_infinity(), 0.0f};
    for_each_batch<1, 4>(count, workers.rank(), workers.count(),
                         [&](auto width, auto batch, std::int64_t c, std::int64_t step) {
                           pack<width()> scores[batch()];
                           load_batch(scores, row + c, step);
                           softmax_add(share, scores);
                         });
    const float max = workers.max(share.max);
    return {max, workers.sum(share.sum * expf(share.max - softmax_shift(max)))};
  }
}

/// The softmax of a row. `out` may be `inp`.
template <softmax_sum Sum, class Workers>
__device__ void softmax_row(const Workers& workers, float* out, const float* inp,
                            std::int64_t count) {
  const softmax_statistics statistics = softmax_row_statistics<Sum>(workers, inp, count);
  const float scale = 1.0f / statistics.sum;
  for (std::int64_t c = workers.rank(); c < count; c += workers.count()) {
    out[c] = expf(inp[c] - statistics.max) * scale;
  }
}

/// The gradient of softmax_row: out * (dout - sum_k dout[k] * out[k]). `dinp` may be `dout`.
template <class Workers>
__device__ void softmax_backward_row(const Workers& workers, float* dinp, const float* dout,
                                     const float* out, std::int64_t count) {
  float share = 0.0f;
  for (std::int64_t c = workers.rank(); c < count; c += workers.count()) share += dout[c] * out[c];
  const float dot = workers.sum(share);
  for (std::int64_t c = workers.rank(); c < count; c += workers.count()) {
    dinp[c] = out[c] * (dout[c] - dot);
  }
}

/// 0 in a row from column `first` on.
template <class Workers>
__device__ void clear_row(const Workers& workers, float* row, std::int64_t first,
                          std::int64_t count) {
  for (std::int64_t c = first + workers.rank(); c < count; c += workers.count()) row[c] = 0.0f;
}

/// The gradient of a row's cross-entropy, (softmax(logits) - onehot(target)) * dloss; 0 in the
/// padding. `dlogits` may be `logits`.
template <class Workers>
__device__ void crossentropy_gradient_row(const Workers& workers, float* dlogits,
                                          const float* logits, softmax_statistics statistics,
                                          std::int32_t target, float dloss,
                                          classifier_shape shape) {
  const float scale = 1.0f / statistics.sum;
  for (std::int64_t c = workers.rank(); c < shape.vocabulary; c += workers.count()) {
    const float p = expf(logits[c] - statistics.max) * scale;
    dlogits[c] = (c == target ? p - 1.0f : p) * dloss;
  }
  clear_row(workers, dlogits, shape.vocabulary, shape.padded_vocabulary);
}

}  // namespace device
LLMC_NAMESPACE_END
