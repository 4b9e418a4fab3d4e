/// @file
/// Attention as batched products with the scores in memory.
///
/// The queries are taken in runs, the last run first. A run needs the scores of only those keys
/// that its last query sees, which saves nearly half of the work of a full square, and the scratch
/// for scores grows with T and not with T^2. In backward the last run reaches every key, so it
/// overwrites dk and dv, and the others add to them.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cmath>
#include <cstdint>

#include <llmc/detail/attention/flash/problem.cuh>
#include <llmc/detail/attention/heads.cuh>
#include <llmc/detail/attention/softmax.cuh>
#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/matmul_context.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Queries in a run: fewer save more of the masked half, more make larger products. Not yet tuned.
inline constexpr std::int64_t attention_run_length = 256;

/// Rows of scores are padded to 16 bytes.
inline std::int64_t score_stride(std::int64_t keys) {
  return ceil_div(keys, 4) * 4;
}

/// How the scratch is cut: `tensors` arrays of the size of one of q, k, v, and `matrices` of scores
/// of a run.
struct materialised_workspace {
  std::int64_t tensor;  ///< floats of one tensor, padded to 16 bytes
  std::int64_t matrix;  ///< floats of the scores of one run
  int tensors;
  int matrices;

  std::size_t bytes() const {
    return checks::bytes<float>("llmc::attention workspace", tensors * tensor + matrices * matrix);
  }
};
inline materialised_workspace cut_workspace(const char* function, attention_shape shape,
                                            int tensors, int matrices) {
  const std::int64_t queries =
      shape.sequence < attention_run_length ? shape.sequence : attention_run_length;
  const std::int64_t tensor =
      checks::checked_product(function, shape.batch, shape.sequence, shape.heads, shape.head_size);
  const std::int64_t matrix = checks::checked_product(function, shape.batch, shape.heads, queries,
                                                      score_stride(shape.sequence));
  checks::bytes<float>(function, tensor + 3, tensors);
  checks::bytes<float>(function, matrix, matrices);
  return {ceil_div(tensor, 4) * 4, matrix, tensors, matrices};
}
inline materialised_workspace materialised_forward_workspace(const char* function,
                                                             attention_shape shape) {
  return cut_workspace(function, shape, 4, 1);  // q, k, v, out; scores
}
inline materialised_workspace materialised_backward_workspace(const char* function,
                                                              attention_shape shape) {
  return cut_workspace(function, shape, 7, 2);  // q, k, v, dout, dq, dk, dv; scores, dscores
}

template <int BlockSize>
class materialised_attention {
 public:
  materialised_attention(const char* function, attention_shape shape, precision arithmetic,
                         matmul_context& context, cudaStream_t stream)
      : function_(function),
        shape_(shape),
        arithmetic_(arithmetic),
        context_(context),
        stream_(stream),
        scale_(1.0f / std::sqrt(static_cast<float>(shape.head_size))) {
    context.resources().require_current_device(function);  // before anything is queued
  }

  void forward(const attention_forward_arrays& a, void* scratch) const {
    const materialised_workspace cut = materialised_forward_workspace(function_, shape_);
    float* const q = static_cast<float*>(scratch);
    float* const k = q + tensor_size();
    float* const v = k + tensor_size();
    float* const mean = q + 3 * cut.tensor;
    float* const scores = q + cut.tensors * cut.tensor;

    move_heads<head_layout::by_head, BlockSize>(function_, q, a.qkv, shape_, 3, stream_);
    for_each_run_backwards([&](query_run run) {
      multiply(matrix_of_scores(scores, run), rows(vectors(q, run.first)), rows(vectors(k)),
               run.queries, run.keys, shape_.head_size, scale_);
      launch({function_, row_blocks(run), BlockSize, 0, stream_}, causal_softmax_kernel<BlockSize>,
             scores, a.lse, shape_, run);
      multiply(vectors(mean, run.first), rows(matrix_of_scores(scores, run)), columns(vectors(v)),
               run.queries, shape_.head_size, run.keys);
    });
    move_heads<head_layout::by_position, BlockSize>(function_, a.out, mean, shape_, 1, stream_);
  }

  void backward(const attention_backward_arrays& a, void* scratch) const {
    const materialised_workspace cut = materialised_backward_workspace(function_, shape_);
    float* const q = static_cast<float*>(scratch);
    float* const k = q + tensor_size();
    float* const v = k + tensor_size();
    float* const dmean = q + 3 * cut.tensor;
    float* const dq = q + 4 * cut.tensor;
    float* const dk = dq + tensor_size();
    float* const dv = dk + tensor_size();
    float* const scores = q + cut.tensors * cut.tensor;
    float* const dscores = scores + cut.matrix;

    move_heads<head_layout::by_head, BlockSize>(function_, q, a.qkv, shape_, 3, stream_);
    move_heads<head_layout::by_head, BlockSize>(function_, dmean, a.dout, shape_, 1, stream_);
    for_each_run_backwards([&](query_run run) {
      const auto p = matrix_of_scores(scores, run);
      const auto ds = matrix_of_scores(dscores, run);
      multiply(p, rows(vectors(q, run.first)), rows(vectors(k)), run.queries, run.keys,
               shape_.head_size, scale_);
      multiply(ds, rows(vectors(dmean, run.first)), rows(vectors(v)), run.queries, run.keys,
               shape_.head_size);
      launch({function_, row_blocks(run), BlockSize, 0, stream_},
             causal_softmax_backward_kernel<BlockSize>, scores, dscores, a.dout, a.out, a.lse,
             shape_, run);
      const bool reaches_all_keys = run.keys == shape_.sequence;
      const auto mode = reaches_all_keys ? accumulation::overwrite : accumulation::add;
      multiply(vectors(dv), columns(p), columns(vectors(dmean, run.first)), run.keys,
               shape_.head_size, run.queries, 1.0f, mode);
      multiply(vectors(dk), columns(ds), columns(vectors(q, run.first)), run.keys, shape_.head_size,
               run.queries, scale_, mode);
      multiply(vectors(dq, run.first), rows(ds), columns(vectors(k)), run.queries, shape_.head_size,
               run.keys, scale_);
    });
    move_heads<head_layout::by_position, BlockSize>(function_, a.dqkv, dq, shape_, 3, stream_);
  }

 private:
  using matrix = products::destination;

  std::int64_t tensor_size() const {
    return shape_.batch * shape_.sequence * shape_.heads * shape_.head_size;
  }

  template <class Body>
  void for_each_run_backwards(Body body) const {
    for (std::int64_t run = ceil_div(shape_.sequence, attention_run_length) - 1; run >= 0; --run) {
      const std::int64_t first = run * attention_run_length;
      const std::int64_t end = first + attention_run_length < shape_.sequence
                                   ? first + attention_run_length
                                   : shape_.sequence;
      body(query_run{first, end - first, end, score_stride(end)});
    }
  }

  /// One warp a row of scores.
  std::int64_t row_blocks(query_run run) const {
    return ceil_div(shape_.batch * shape_.heads * run.queries, BlockSize / device::warp_size);
  }

  /// The vectors of each head from position `first` on, in a tensor laid out by head.
  matrix vectors(float* tensor, std::int64_t first = 0) const {
    return {tensor + first * shape_.head_size, shape_.head_size,
            shape_.sequence * shape_.head_size};
  }
  matrix matrix_of_scores(float* scores, query_run run) const {
    return {scores, run.stride, run.queries * run.stride};
  }
  /// A matrix as an operand: each of its rows is summed over, or each of its columns.
  static products::operand rows(matrix m) {
    return {m.data, m.stride, products::layout::inner_first, m.batch_stride};
  }
  static products::operand columns(matrix m) {
    return {m.data, m.stride, products::layout::outer_first, m.batch_stride};
  }

  /// out (+)= factor * inp1 inp2 for every head of every batch entry.
  void multiply(matrix out, products::operand inp1, products::operand inp2, std::int64_t out_rows,
                std::int64_t out_columns, std::int64_t inner, float factor = 1.0f,
                accumulation mode = accumulation::overwrite) const {
    products::product p{out, inp1, inp2, out_rows, out_columns, inner};
    p.batch = shape_.batch * shape_.heads;
    p.factor = factor;
    if (mode == accumulation::add) p.then.residual = p.out.data;
    p.arithmetic = arithmetic_;
    context_.multiply(function_, p, stream_);
  }

  const char* function_;
  attention_shape shape_;
  precision arithmetic_;
  matmul_context& context_;
  cudaStream_t stream_;
  float scale_;
};

}  // namespace detail
LLMC_NAMESPACE_END
