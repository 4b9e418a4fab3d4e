/// @file
/// The softmax between the two products of materialised attention, forward and backward, one warp a
/// row of scores.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/group.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/device/row/row.cuh>
#include <llmc/device/row/softmax.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Turns scores into probabilities p, and the probabilities' gradients dp into those of the scores,
/// p * (dp - delta), both in place. Keys from `visible` on get 0. By one warp.
__device__ inline void causal_softmax_backward_from_scores(float* scores, float* dprobabilities,
                                                           float lse, float delta,
                                                           std::int64_t visible,
                                                           std::int64_t keys) {
  for (std::int64_t j = threadIdx.x % device::warp_size; j < keys; j += device::warp_size) {
    const float p = j < visible ? expf(scores[j] - lse) : 0.0f;
    dprobabilities[j] = j < visible ? p * (dprobabilities[j] - delta) : 0.0f;
    scores[j] = p;
  }
}

/// A run of queries [first, first + queries) of every head of every batch entry, and the scores of
/// the keys [0, keys) that the last of them sees; a row of scores takes `stride` floats.
struct query_run {
  std::int64_t first;
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t stride;
};

/// scores is (B * NH, queries, stride), lse is (B, NH, T).
template <int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    causal_softmax_kernel(float* scores, float* lse, attention_shape shape, query_run run) {
  const std::int64_t rows = shape.batch * shape.heads * run.queries;
  for (std::int64_t row = device::thread_in_grid() / device::warp_size; row < rows;
       row += device::threads_in_grid() / device::warp_size) {
    const std::int64_t head = row / run.queries;
    const std::int64_t t = run.first + row % run.queries;
    float* const row_scores = scores + row * run.stride;
    using warp = device::whole_warp<BlockSize>;
    const device::row_in_memory<warp, 1> visible(row_scores, t + 1);
    const auto [max, sum] =
        device::softmax_row<device::softmax_sum::after_maximum>(warp(), row_scores, visible);
    device::clear_row<1>(warp(), row_scores, t + 1, run.keys);
    if (warp::rank() == 0) lse[head * shape.sequence + t] = max + logf(sum);
  }
}

/// delta[t] = sum_d dout[t][d] * out[t][d] equals sum_j p[t][j] * dp[t][j] and is the shorter sum.
template <int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    causal_softmax_backward_kernel(float* scores, float* dprobabilities, const float* dout,
                                   const float* out, const float* lse, attention_shape shape,
                                   query_run run) {
  const std::int64_t rows = shape.batch * shape.heads * run.queries;
  const int lane = threadIdx.x % device::warp_size;
  for (std::int64_t row = device::thread_in_grid() / device::warp_size; row < rows;
       row += device::threads_in_grid() / device::warp_size) {
    const std::int64_t head = row / run.queries;
    const std::int64_t b = head / shape.heads;
    const std::int64_t h = head % shape.heads;
    const std::int64_t t = run.first + row % run.queries;
    const std::int64_t vector = ((b * shape.sequence + t) * shape.heads + h) * shape.head_size;
    float delta = 0.0f;
    for (std::int64_t d = lane; d < shape.head_size; d += device::warp_size) {
      delta += dout[vector + d] * out[vector + d];
    }
    causal_softmax_backward_from_scores(
        scores + row * run.stride, dprobabilities + row * run.stride,
        lse[head * shape.sequence + t], device::warp_sum(delta), t + 1, run.keys);
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
