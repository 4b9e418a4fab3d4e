/// @file
/// Fused forward attention on tensor cores: a block owns some queries of one head and streams the
/// keys and values past them, with a softmax that is corrected as larger scores turn up.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <llmc/detail/attention/flash/tiles_mma.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/row/reduce.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The softmax so far of a warp's rows, in powers of 2: `largest` of all scores, and this lane's
/// share of sum 2^(score - largest) (times the factor that rounds, see Tiles::rounding_exponent).
template <class Tiles>
class online_softmax {
 public:
  __device__ __forceinline__ online_softmax() {
#pragma unroll
    for (int m = 0; m < Tiles::m_tiles; ++m) {
      largest_[m][0] = largest_[m][1] = device::minus_infinity();
      sum_[m][0] = sum_[m][1] = 0.0f;
    }
  }

  /// Turns a tile of scores into probabilities relative to the largest score so far, and sets
  /// `factor` to what earlier results must be multiplied by. `scale` turns scores into exponents of
  /// 2.
  __device__ __forceinline__ void take(typename Tiles::scores& scores, float scale,
                                       float (&factor)[Tiles::m_tiles][2]) {
#pragma unroll
    for (int m = 0; m < Tiles::m_tiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float tile_largest = row_maximum(scores[m], half) * scale;
        const float largest = fmaxf(largest_[m][half], tile_largest);
        // No key counts yet if all scores so far are -infinity: then any other reference will do,
        // but not that one: -infinity + infinity is NaN.
        const float reference = largest == device::minus_infinity() ? 0.0f : largest;
        factor[m][half] = exp2_fast(largest_[m][half] - reference);
        largest_[m][half] = largest;
        float tile_sum = 0.0f;
#pragma unroll
        for (int n = 0; n < Tiles::n_tiles; ++n) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            const float p =
                exp2_fast(fmaf(scores[m][n][i], scale, Tiles::rounding_exponent - reference));
            scores[m][n][i] = p;
            tile_sum += p;
          }
        }
        sum_[m][half] = fmaf(sum_[m][half], factor[m][half], tile_sum);
      }
    }
  }

  /// The sum over the whole row, known to all its lanes.
  __device__ __forceinline__ float total(int m, int half) const {
    float sum = sum_[m][half];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    return Tiles::traits::is_split ? sum : sum * (1.0f / Tiles::traits::rounding);
  }
  __device__ __forceinline__ float log_sum_exp(int m, int half, float total) const {
    return log_of_2 * largest_[m][half] + logf(total);
  }

 private:
  /// A row's scores lie in the four lanes of one g.
  static __device__ __forceinline__ float row_maximum(const float (&scores)[Tiles::n_tiles][4],
                                                      int half) {
    float largest = scores[0][2 * half];
#pragma unroll
    for (int n = 0; n < Tiles::n_tiles; ++n) {
      largest = fmaxf(largest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    return fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
  }

  float largest_[Tiles::m_tiles][2];
  float sum_[Tiles::m_tiles][2];
};

template <class Tiles>
__device__ __forceinline__ void flash_forward_block(const flash_problem& p,
                                                    const attention_forward_arrays& arrays) {
  extern __shared__ __align__(128) float shared[];
  const typename Tiles::reader reader;
  const int warp = own_warp();
  const int row_blocks = (p.positions + Tiles::rows - 1) / Tiles::rows;
  const flash_block block(p, row_blocks);
  const flash_head head(p, block.head);
  const float* const q = arrays.qkv + head.qkv;
  const float* const k = q + head.channels;
  const float* const v = k + head.channels;
  const int block_row = (row_blocks - 1 - block.row_block) * Tiles::rows;
  const int first_row = block_row + warp * Tiles::rows_per_warp;
  const int last_row = first_row + Tiles::rows_per_warp - 1;
  const int end = (min)(block_row + Tiles::rows, p.positions);

  tile_stream<Tiles, tile_order::forwards> tiles({k, head.qkv_stride}, {v, head.qkv_stride}, 0);
  tiles.load_next(p, 0, shared);
  device::commit_copies();

  typename Tiles::parked queries(shared + 2 * Tiles::stage_floats + warp * Tiles::parked_floats);
#pragma unroll
  for (int m = 0; m < Tiles::m_tiles; ++m) {
    const int row = first_row + 16 * m + device::mma_lane().g;
    for_each_parked_step<Tiles>(p, [&](int step, auto load) {
      queries.set(m, step, load(q, head.qkv_stride, row), load(q, head.qkv_stride, row + 8));
    });
  }

  typename Tiles::row_sums sums;
  device::set_zero<Tiles::m_tiles, Tiles::features / 8>(sums);
  online_softmax<Tiles> softmax;
  const float scale = p.scale * log2_of_e;
  int stage = 0;
#pragma unroll 1
  for (int first_key = 0; first_key < end; first_key += Tiles::inner, stage ^= 1) {
    const float* const key_tile = shared + stage * Tiles::stage_floats;
    const float* const value_tile = key_tile + Tiles::tile_floats;
    device::wait_for_copies();
    __syncthreads();  // this tile is there for all, and all are done with the one before
    if (first_key + Tiles::inner < end) {
      tiles.load_next(p, first_key + Tiles::inner, shared + (stage ^ 1) * Tiles::stage_floats);
      device::commit_copies();
    }
    if (first_key > last_row) continue;  // nothing here that this warp may see

    typename Tiles::scores scores;
    device::multiply_rows(scores, queries, key_tile, reader);
    mask_later_keys<Tiles>(scores, first_row, first_key);
    float factor[Tiles::m_tiles][2];
    softmax.take(scores, scale, factor);
    device::multiply_columns<Tiles::arithmetic>(sums, scores, value_tile, reader,
                                                [&](int m, int half) { return factor[m][half]; });
  }

  float factor[Tiles::m_tiles][2];
#pragma unroll
  for (int m = 0; m < Tiles::m_tiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float total = softmax.total(m, half);
      factor[m][half] = 1.0f / total;
      const device::mma_lane lane;
      const int row = first_row + 16 * m + 8 * half + lane.g;
      if (lane.t == 0 && row < p.positions) {
        arrays.lse[head.row_sums + row] = softmax.log_sum_exp(m, half, total);
      }
    }
  }
  store_rows<Tiles>(p, sums, arrays.out + head.out, head.channels, first_row,
                    [&](int m, int half) { return factor[m][half]; });
}

template <class Tiles>
__global__ void __launch_bounds__(Tiles::threads, Tiles::blocks_per_sm)
    flash_forward_mma_kernel(flash_problem p, attention_forward_arrays arrays) {
  if constexpr (Tiles::traits::is_compiled) flash_forward_block<Tiles>(p, arrays);
}

}  // namespace detail
LLMC_NAMESPACE_END
