/// @file
/// Fused backward attention in FP32 multiply-adds, in two kernels; the same scheme as
/// flash_backward_mma.cuh. One tile in shared memory serves both streamed tensors in turn, which
/// keeps room for more blocks.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <llmc/detail/attention/flash_fma.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/reduce.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// dq of a block of queries, and their delta.
template <class Tiles>
__global__ void __launch_bounds__(Tiles::threads)
    flash_backward_queries_fma_kernel(flash_problem p, flash_backward_arrays arrays) {
  extern __shared__ __align__(128) float shared[];
  float* const queries = shared;
  float* const douts = queries + Tiles::rows_floats;
  float* const tile = douts + Tiles::rows_floats;
  float* const weights = tile + Tiles::inner_floats;
  const fma_thread<Tiles> thread;
  const int row_blocks = (p.positions + Tiles::rows - 1) / Tiles::rows;
  const flash_block block(p, row_blocks);
  const flash_head head(p, block.head);
  const float* const q = arrays.qkv + head.qkv;
  const float* const k = q + head.channels;
  const float* const v = k + head.channels;
  const int first_row = (row_blocks - 1 - block.row_block) * Tiles::rows;
  const int end = min(first_row + Tiles::rows, p.positions);
  load_tile<Tiles>(p, queries, q, head.qkv_stride, first_row, Tiles::rows);
  load_tile<Tiles>(p, douts, arrays.dout + head.out, head.channels, first_row, Tiles::rows);
  __syncthreads();

  float exponent[Tiles::own_rows], delta[Tiles::own_rows];
#pragma unroll
  for (int i = 0; i < Tiles::own_rows; ++i) {
    const int row = first_row + thread.row(i);
    exponent[i] = delta[i] = 0.0f;
    if (row < p.positions) {
      exponent[i] = -log2_of_e * arrays.lse[head.row_sums + row];
      const float* const out =
          arrays.out + head.out + static_cast<std::int64_t>(row) * head.channels;
      for (int f = thread.x; f < p.head_size; f += Tiles::columns_of_threads) {
        delta[i] = fmaf(out[f], douts[thread.row(i) * Tiles::stride + f], delta[i]);
      }
    }
    delta[i] = reduce_row(delta[i], device::plus_operator{});
    if (thread.x == 0 && row < p.positions) arrays.delta[head.row_sums + row] = delta[i];
  }

  typename Tiles::row_sums dq;
  for_each_own<Tiles::own_rows, Tiles::own_features>([&](int i, int f) { dq[i][f] = 0.0f; });
  const float scale = p.scale * log2_of_e;
  for (int first_key = 0; first_key < end; first_key += Tiles::inner) {
    __syncthreads();  // all are done with the last tile of keys
    load_tile<Tiles>(p, tile, v, head.qkv_stride, first_key, Tiles::inner);
    __syncthreads();
    typename Tiles::scores scores, dscores;
    fma_rows<Tiles>(dscores, douts, tile);
    __syncthreads();  // all are done with the values
    load_tile<Tiles>(p, tile, k, head.qkv_stride, first_key, Tiles::inner);
    __syncthreads();
    fma_rows<Tiles>(scores, queries, tile);
    for_each_own<Tiles::own_rows, Tiles::own_columns>([&](int i, int j) {
      const bool later = first_key + thread.column(j) > first_row + thread.row(i);
      const float p_ij = exp2_fast(fmaf(scores[i][j], scale, exponent[i]));
      dscores[i][j] = later ? 0.0f : p_ij * (dscores[i][j] - delta[i]);
    });
    store_weights<Tiles>(weights, dscores);
    __syncthreads();
    fma_columns<Tiles>(dq, weights, tile);
  }
  store_own_rows<Tiles>(p, dq, arrays.dqkv + head.qkv, head.qkv_stride, first_row,
                        [&](int) { return p.scale; });
}

/// dk and dv of a block of keys; rows of scores are keys, columns queries. Tiles of queries come
/// from the last to the first, so that small terms are summed before large ones.
template <class Tiles>
__global__ void __launch_bounds__(Tiles::threads)
    flash_backward_keys_fma_kernel(flash_problem p, flash_backward_arrays arrays) {
  extern __shared__ __align__(128) float shared[];
  float* const keys = shared;
  float* const values = keys + Tiles::rows_floats;
  float* const tile = values + Tiles::rows_floats;
  float* const weights = tile + Tiles::inner_floats;
  const fma_thread<Tiles> thread;
  const flash_block block(p, (p.positions + Tiles::rows - 1) / Tiles::rows);
  const flash_head head(p, block.head);
  const float* const q = arrays.qkv + head.qkv;
  const float* const k = q + head.channels;
  const float* const dout = arrays.dout + head.out;
  const int first_row = block.row_block * Tiles::rows;
  load_tile<Tiles>(p, keys, k, head.qkv_stride, first_row, Tiles::rows);
  load_tile<Tiles>(p, values, k + head.channels, head.qkv_stride, first_row, Tiles::rows);

  typename Tiles::row_sums dk, dv;
  for_each_own<Tiles::own_rows, Tiles::own_features>(
      [&](int i, int f) { dk[i][f] = dv[i][f] = 0.0f; });
  const float scale = p.scale * log2_of_e;
  const auto load = [&](const float* matrix, int stride, int first_query) {
    __syncthreads();  // all are done with what is there
    load_tile<Tiles>(p, tile, matrix, stride, first_query, Tiles::inner);
    __syncthreads();
  };
  const int last_tile = (p.positions - 1) / Tiles::inner * Tiles::inner;
  for (int first_query = last_tile; first_query >= first_row; first_query -= Tiles::inner) {
    typename Tiles::scores scores, dscores;
    load(q, head.qkv_stride, first_query);
    fma_rows<Tiles>(scores, keys, tile);
    load(dout, head.channels, first_query);
    fma_rows<Tiles>(dscores, values, tile);
#pragma unroll
    for (int j = 0; j < Tiles::own_columns; ++j) {
      const int query = first_query + thread.column(j);
      const bool exists = query < p.positions;
      const float exponent = exists ? -log2_of_e * arrays.lse[head.row_sums + query] : 0.0f;
      const float delta = exists ? arrays.delta[head.row_sums + query] : 0.0f;
#pragma unroll
      for (int i = 0; i < Tiles::own_rows; ++i) {
        const bool sees = exists && query >= first_row + thread.row(i);
        const float p_ij = exp2_fast(fmaf(scores[i][j], scale, exponent));
        scores[i][j] = sees ? p_ij : 0.0f;
        dscores[i][j] = sees ? p_ij * (dscores[i][j] - delta) : 0.0f;
      }
    }
    store_weights<Tiles>(weights, scores);
    __syncthreads();
    fma_columns<Tiles>(dv, weights, tile);
    load(q, head.qkv_stride, first_query);
    store_weights<Tiles>(weights, dscores);
    __syncthreads();
    fma_columns<Tiles>(dk, weights, tile);
  }

  float* const dkeys = arrays.dqkv + head.qkv + head.channels;
  store_own_rows<Tiles>(p, dk, dkeys, head.qkv_stride, first_row, [&](int) { return p.scale; });
  store_own_rows<Tiles>(p, dv, dkeys + head.channels, head.qkv_stride, first_row,
                        [](int) { return 1.0f; });
}

}  // namespace detail
LLMC_NAMESPACE_END
