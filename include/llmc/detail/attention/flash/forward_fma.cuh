/// @file
/// Fused forward attention in FP32 multiply-adds; the same scheme as forward_mma.cuh.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <llmc/detail/attention/flash/tiles_fma.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/row/reduce.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The softmax so far of this thread's rows, in powers of 2: the largest score, known to all
/// threads of the row, and this thread's share of the sum.
template <class Tiles>
class fma_online_softmax {
 public:
  __device__ __forceinline__ fma_online_softmax() {
#pragma unroll
    for (int i = 0; i < Tiles::own_rows; ++i) {
      largest_[i] = device::minus_infinity();
      sum_[i] = 0.0f;
    }
  }

  /// Turns a tile of scores into probabilities relative to the largest score so far, and multiplies
  /// earlier sums by what makes them relative to it, too. `scale` turns scores into exponents of 2.
  __device__ __forceinline__ void take(typename Tiles::scores& scores, float scale,
                                       typename Tiles::row_sums& sums) {
#pragma unroll
    for (int i = 0; i < Tiles::own_rows; ++i) {
      float tile_largest = device::minus_infinity();
#pragma unroll
      for (int j = 0; j < Tiles::own_columns; ++j) tile_largest = fmaxf(tile_largest, scores[i][j]);
      tile_largest = reduce_row(tile_largest, device::maximum_operator{});
      const float largest = fmaxf(largest_[i], tile_largest * scale);
      // No key counts yet if all scores so far are -infinity: then any other reference will do, but
      // not that one: -infinity + infinity is NaN.
      const float reference = largest == device::minus_infinity() ? 0.0f : largest;
      const float factor = exp2_fast(largest_[i] - reference);
      largest_[i] = largest;
      sum_[i] *= factor;
#pragma unroll
      for (int f = 0; f < Tiles::own_features; ++f) sums[i][f] *= factor;
#pragma unroll
      for (int j = 0; j < Tiles::own_columns; ++j) {
        scores[i][j] = exp2_fast(fmaf(scores[i][j], scale, -reference));
        sum_[i] += scores[i][j];
      }
    }
  }

  __device__ __forceinline__ float total(int i) const {
    return reduce_row(sum_[i], device::plus_operator{});
  }
  __device__ __forceinline__ float log_sum_exp(int i, float total) const {
    return log_of_2 * largest_[i] + logf(total);
  }

 private:
  float largest_[Tiles::own_rows];
  float sum_[Tiles::own_rows];
};

template <class Tiles>
__global__ void __launch_bounds__(Tiles::threads)
    flash_forward_fma_kernel(flash_problem p, attention_forward_arrays arrays) {
  extern __shared__ __align__(128) float shared[];
  float* const queries = shared;
  float* const keys = queries + Tiles::rows_floats;
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
  begin_tile<Tiles, Tiles::inner>(p, keys, k, 0);

  typename Tiles::row_sums sums;
  for_each_own<Tiles::own_rows, Tiles::own_features>([&](int i, int f) { sums[i][f] = 0.0f; });
  fma_online_softmax<Tiles> softmax;
  for (int first_key = 0; first_key < end; first_key += Tiles::inner) {
    wait_for_tiles();  // for the keys; all are done with the last values
    begin_tile<Tiles, Tiles::inner>(p, values, v, first_key);
    typename Tiles::scores scores;
    fma_rows<Tiles>(scores, queries, keys);
    for_each_own<Tiles::own_rows, Tiles::own_columns>([&](int i, int j) {
      if (first_key + thread.column(j) > first_row + thread.row(i)) {
        scores[i][j] = device::minus_infinity();
      }
    });
    softmax.take(scores, p.scale * log2_of_e, sums);
    store_weights<Tiles>(weights, scores);
    wait_for_tiles();  // for the values; all are done with the keys
    if (first_key + Tiles::inner < end) {
      begin_tile<Tiles, Tiles::inner>(p, keys, k, first_key + Tiles::inner);
    }
    fma_columns<Tiles>(sums, weights, values, 0, seen_keys<Tiles>(first_row, first_key));
  }

  float factor[Tiles::own_rows];
#pragma unroll
  for (int i = 0; i < Tiles::own_rows; ++i) {
    const float total = softmax.total(i);
    factor[i] = 1.0f / total;
    const int row = first_row + thread.row(i);
    if (thread.x == 0 && row < p.positions) {
      arrays.lse[head.row_sums + row] = softmax.log_sum_exp(i, total);
    }
  }
  store_own_rows<Tiles>(p, sums, arrays.out + head.out, head.channels, first_row,
                        [&](int i) { return factor[i]; });
}

}  // namespace detail
LLMC_NAMESPACE_END
