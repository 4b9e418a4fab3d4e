/// @file
/// Fused backward attention in FP32 multiply-adds, in two kernels; the same scheme as
/// backward_mma.cuh. Each tile is copied during the product before the one that needs it.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <llmc/detail/attention/flash/tiles_fma.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/dependent_launch.cuh>
#include <llmc/device/row/reduce.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// dq of a block of queries, and their delta.
template <class Tiles>
__global__ void __launch_bounds__(Tiles::threads)
    flash_backward_queries_fma_kernel(flash_problem p, attention_backward_arrays arrays) {
  extern __shared__ __align__(128) float shared[];
  device::allow_next_kernel();
  float* const queries = shared;
  float* const douts = queries + Tiles::rows_floats;
  float* const keys = douts + Tiles::rows_floats;
  float* const values = keys + Tiles::inner_floats;
  float* const weights = values + Tiles::inner_floats;
  const fma_thread<Tiles> thread;
  const int row_blocks = (p.positions + Tiles::rows - 1) / Tiles::rows;
  const flash_block block(p, row_blocks);
  const flash_head head(p, block.head);
  const vectors q{arrays.qkv + head.qkv, head.qkv_stride};
  const vectors k{q.first + head.channels, head.qkv_stride};
  const vectors v{k.first + head.channels, head.qkv_stride};
  const int first_row = (row_blocks - 1 - block.row_block) * Tiles::rows;
  const int end = (min)(first_row + Tiles::rows, p.positions);
  begin_tile<Tiles, Tiles::rows>(p, queries, q, first_row);
  begin_tile<Tiles, Tiles::rows>(p, douts, {arrays.dout + head.out, head.channels}, first_row);
  begin_tile<Tiles, Tiles::inner>(p, values, v, 0);
  wait_for_tiles();

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
    wait_for_tiles();  // for the values; all are done with the last keys
    begin_tile<Tiles, Tiles::inner>(p, keys, k, first_key);
    typename Tiles::scores scores, dscores;
    fma_rows<Tiles>(dscores, douts, values);
    wait_for_tiles();  // for the keys; all are done with the values
    if (first_key + Tiles::inner < end) {
      begin_tile<Tiles, Tiles::inner>(p, values, v, first_key + Tiles::inner);
    }
    fma_rows<Tiles>(scores, queries, keys);
    for_each_own<Tiles::own_rows, Tiles::own_columns>([&](int i, int j) {
      const float p_ij = exp2_fast(fmaf(scores[i][j], scale, exponent[i]));
      dscores[i][j] = first_key + thread.column(j) > first_row + thread.row(i)
                          ? 0.0f
                          : p_ij * (dscores[i][j] - delta[i]);
    });
    store_weights<Tiles>(weights, dscores);
    fma_columns<Tiles>(dq, weights, keys, 0, seen_keys<Tiles>(first_row, first_key));
  }
  store_own_rows<Tiles>(p, dq, arrays.dqkv + head.qkv, head.qkv_stride, first_row,
                        [&](int) { return p.scale; });
}

/// dk and dv of a block of keys; rows of scores are keys, columns queries. Tiles of queries come
/// from the last to the first, so that small terms are summed before large ones.
template <class Tiles>
__global__ void __launch_bounds__(Tiles::threads)
    flash_backward_keys_fma_kernel(flash_problem p, attention_backward_arrays arrays) {
  extern __shared__ __align__(128) float shared[];
  float* const keys = shared;
  float* const values = keys + Tiles::rows_floats;
  float* const queries = values + Tiles::rows_floats;
  float* const douts = queries + Tiles::inner_floats;
  float* const weights = douts + Tiles::inner_floats;
  const fma_thread<Tiles> thread;
  const flash_block block(p, (p.positions + Tiles::rows - 1) / Tiles::rows);
  const flash_head head(p, block.head);
  const vectors q{arrays.qkv + head.qkv, head.qkv_stride};
  const vectors k{q.first + head.channels, head.qkv_stride};
  const vectors v{k.first + head.channels, head.qkv_stride};
  const vectors dout{arrays.dout + head.out, head.channels};
  const int first_row = block.row_block * Tiles::rows;
  const int last_tile = (p.positions - 1) / Tiles::inner * Tiles::inner;
  begin_tile<Tiles, Tiles::rows>(p, keys, k, first_row);
  begin_tile<Tiles, Tiles::rows>(p, values, v, first_row);
  begin_tile<Tiles, Tiles::inner>(p, douts, dout, last_tile);
  device::wait_for_previous_kernel();  // for delta

  typename Tiles::row_sums dk, dv;
  for_each_own<Tiles::own_rows, Tiles::own_features>(
      [&](int i, int f) { dk[i][f] = dv[i][f] = 0.0f; });
  const float scale = p.scale * log2_of_e;
  for (int first_query = last_tile; first_query >= first_row; first_query -= Tiles::inner) {
    wait_for_tiles();  // for the gradients; all are done with the last queries
    begin_tile<Tiles, Tiles::inner>(p, queries, q, first_query);
    float exponent[Tiles::own_columns], delta[Tiles::own_columns];
#pragma unroll
    for (int j = 0; j < Tiles::own_columns; ++j) {
      const int query = first_query + thread.column(j);
      const bool exists = query < p.positions;
      // What does not exist gets a probability of 0.
      exponent[j] =
          exists ? -log2_of_e * arrays.lse[head.row_sums + query] : device::minus_infinity();
      delta[j] = exists ? arrays.delta[head.row_sums + query] : 0.0f;
    }
    typename Tiles::scores scores, dscores;
    fma_rows<Tiles>(dscores, values, douts);
    wait_for_tiles();  // for the queries
    fma_rows<Tiles>(scores, keys, queries);
    for_each_own<Tiles::own_rows, Tiles::own_columns>([&](int i, int j) {
      const bool sees = first_query + thread.column(j) >= first_row + thread.row(i);
      const float p_ij = exp2_fast(fmaf(scores[i][j], scale, exponent[j]));
      scores[i][j] = sees ? p_ij : 0.0f;
      dscores[i][j] = sees ? p_ij * (dscores[i][j] - delta[j]) : 0.0f;
    });
    const int first_seeing = first_seeing_query<Tiles>(first_row, first_query);
    store_weights<Tiles>(weights, scores);
    fma_columns<Tiles>(dv, weights, douts, first_seeing, Tiles::inner);
    __syncthreads();  // all are done with the gradients
    if (first_query > first_row) {
      begin_tile<Tiles, Tiles::inner>(p, douts, dout, first_query - Tiles::inner);
    }
    store_weights<Tiles>(weights, dscores);
    fma_columns<Tiles>(dk, weights, queries, first_seeing, Tiles::inner);
  }

  float* const dkeys = arrays.dqkv + head.qkv + head.channels;
  store_own_rows<Tiles>(p, dk, dkeys, head.qkv_stride, first_row, [&](int) { return p.scale; });
  store_own_rows<Tiles>(p, dv, dkeys + head.channels, head.qkv_stride, first_row,
                        [](int) { return 1.0f; });
}

}  // namespace detail
LLMC_NAMESPACE_END
