/// @file
/// Attention by one thread a row, straight from the formulas, in IEEE FP32.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cmath>
#include <cstdint>

#include <llmc/detail/attention/flash/problem.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Row t of one head, number `row` of (B, NH, T), and where the head's vectors begin.
struct naive_row {
  attention_shape shape;
  std::int64_t t;
  std::int64_t batch;
  std::int64_t head;

  __device__ naive_row(attention_shape s, std::int64_t row)
      : shape(s),
        t(row % s.sequence),
        batch(row / s.sequence / s.heads),
        head(row / s.sequence % s.heads) {}

  /// Query (0), key (1) or value (2) of a position in (B, T, 3, NH, HS).
  __device__ std::int64_t qkv(int which, std::int64_t position) const {
    return (((batch * shape.sequence + position) * 3 + which) * shape.heads + head) *
           shape.head_size;
  }
  /// A position in (B, T, NH, HS).
  __device__ std::int64_t out(std::int64_t position) const {
    return ((batch * shape.sequence + position) * shape.heads + head) * shape.head_size;
  }
};

__device__ inline float naive_dot(const float* a, const float* b, std::int64_t count) {
  float sum = 0.0f;
  for (std::int64_t d = 0; d < count; ++d) sum += a[d] * b[d];
  return sum;
}
__device__ inline void naive_add_scaled(float* to, float factor, const float* from,
                                        std::int64_t count) {
  for (std::int64_t d = 0; d < count; ++d) to[d] += factor * from[d];
}
__device__ inline void naive_clear(float* to, std::int64_t count) {
  for (std::int64_t d = 0; d < count; ++d) to[d] = 0.0f;
}

/// A thread a query: the largest score, then the weights, for which the scores are computed again.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    naive_attention_forward_kernel(float* out, float* lse, const float* qkv, attention_shape shape,
                                   float scale) {
  const std::int64_t rows = shape.batch * shape.heads * shape.sequence, HS = shape.head_size;
  for (std::int64_t row = device::thread_in_grid(); row < rows; row += device::threads_in_grid()) {
    const naive_row at(shape, row);
    const auto score = [&](std::int64_t j) {
      return scale * naive_dot(qkv + at.qkv(0, at.t), qkv + at.qkv(1, j), HS);
    };
    float largest = device::minus_infinity();
    for (std::int64_t j = 0; j <= at.t; ++j) largest = fmaxf(largest, score(j));

    float* const mean = out + at.out(at.t);
    naive_clear(mean, HS);
    float sum = 0.0f;
    for (std::int64_t j = 0; j <= at.t; ++j) {
      const float weight = expf(score(j) - largest);
      sum += weight;
      naive_add_scaled(mean, weight, qkv + at.qkv(2, j), HS);
    }
    for (std::int64_t d = 0; d < HS; ++d) mean[d] /= sum;
    lse[row] = largest + logf(sum);
  }
}

/// The numbers of one query and one key that the gradients need.
struct naive_pair {
  float p;   ///< the probability
  float ds;  ///< the gradient of the score, times scale

  __device__ naive_pair(const attention_backward_arrays& a, const naive_row& at, std::int64_t query,
                        std::int64_t key, float scale) {
    const std::int64_t HS = at.shape.head_size;
    const std::int64_t row = (at.batch * at.shape.heads + at.head) * at.shape.sequence + query;
    const float score = scale * naive_dot(a.qkv + at.qkv(0, query), a.qkv + at.qkv(1, key), HS);
    p = expf(score - a.lse[row]);
    ds = scale * p * (naive_dot(a.dout + at.out(query), a.qkv + at.qkv(2, key), HS) - a.delta[row]);
  }
};

/// A thread a query: delta, and dq over all keys that it sees.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    naive_attention_query_kernel(attention_backward_arrays a, attention_shape shape, float scale) {
  const std::int64_t rows = shape.batch * shape.heads * shape.sequence, HS = shape.head_size;
  for (std::int64_t row = device::thread_in_grid(); row < rows; row += device::threads_in_grid()) {
    const naive_row at(shape, row);
    a.delta[row] = naive_dot(a.dout + at.out(at.t), a.out + at.out(at.t), HS);
    float* const dq = a.dqkv + at.qkv(0, at.t);
    naive_clear(dq, HS);
    for (std::int64_t j = 0; j <= at.t; ++j) {
      naive_add_scaled(dq, naive_pair(a, at, at.t, j, scale).ds, a.qkv + at.qkv(1, j), HS);
    }
  }
}

/// A thread a key: dk and dv over all queries that see it, the last first. Needs every delta.
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads)
    naive_attention_key_kernel(attention_backward_arrays a, attention_shape shape, float scale) {
  const std::int64_t rows = shape.batch * shape.heads * shape.sequence, HS = shape.head_size;
  for (std::int64_t row = device::thread_in_grid(); row < rows; row += device::threads_in_grid()) {
    const naive_row at(shape, row);
    float* const dk = a.dqkv + at.qkv(1, at.t);
    float* const dv = a.dqkv + at.qkv(2, at.t);
    naive_clear(dk, HS);
    naive_clear(dv, HS);
    for (std::int64_t query = shape.sequence - 1; query >= at.t; --query) {
      const naive_pair pair(a, at, query, at.t, scale);
      naive_add_scaled(dk, pair.ds, a.qkv + at.qkv(0, query), HS);
      naive_add_scaled(dv, pair.p, a.dout + at.out(query), HS);
    }
  }
}

/// Host side.
struct naive_attention {
  const char* function;
  attention_shape shape;
  int block_size;
  cudaStream_t stream;

  void forward(const attention_forward_arrays& a) const {
    launch(configuration(), naive_attention_forward_kernel<1024>, a.out, a.lse, a.qkv, shape,
           scale());
  }
  void backward(const attention_backward_arrays& arrays) const {
    launch(configuration(), naive_attention_query_kernel<1024>, arrays, shape, scale());
    launch(configuration(), naive_attention_key_kernel<1024>, arrays, shape, scale());
  }

 private:
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape.head_size)); }
  launch_config configuration() const {
    const std::int64_t rows = shape.batch * shape.heads * shape.sequence;
    return {function, ceil_div(rows, block_size), block_size, 0, stream};
  }
};

}  // namespace detail
LLMC_NAMESPACE_END
