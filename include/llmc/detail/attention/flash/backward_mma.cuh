/// @file
/// Fused backward attention on tensor cores, in two kernels and without atomics: one in which a
/// block owns queries and makes their dq, then one in which a block owns keys and makes their dk
/// and dv. Each makes the probabilities again, so there are seven products where five would do, but
/// every gradient is summed by one warp in one order.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <llmc/detail/attention/flash/tiles_mma.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/dependent_launch.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// What a warp knows of its queries. `exponent` is -log2(sum exp(score)) +
/// Tiles::rounding_exponent, to which a score is added; `delta` is sum_d dout[d] * out[d].
template <class Tiles>
struct query_statistics {
  float exponent[Tiles::m_tiles][2];
  float delta[Tiles::m_tiles][2];
};

__device__ __forceinline__ float dot(float4 a, float4 b) {
  return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

/// Parks the warp's q and dout, and finds and stores delta on the way. All arrays are read before a
/// delta is stored, so that one wait serves all.
template <class Tiles>
__device__ __forceinline__ void prepare_queries(const flash_problem& p,
                                                const attention_backward_arrays& arrays,
                                                const flash_head& head, int first_row,
                                                typename Tiles::parked& queries,
                                                typename Tiles::parked& douts,
                                                query_statistics<Tiles>& statistics) {
  const device::mma_lane lane;
  const float* const q = arrays.qkv + head.qkv;
  const float* const dout = arrays.dout + head.out;
  const float* const out = arrays.out + head.out;
#pragma unroll
  for (int m = 0; m < Tiles::m_tiles; ++m) {
    const int row = first_row + 16 * m + lane.g;
    float(&delta)[2] = statistics.delta[m];
    delta[0] = delta[1] = 0.0f;
    for_each_parked_step<Tiles>(p, [&](int step, auto load) {
      const float4 upper = load(dout, head.channels, row);
      const float4 lower = load(dout, head.channels, row + 8);
      delta[0] += dot(upper, load(out, head.channels, row));
      delta[1] += dot(lower, load(out, head.channels, row + 8));
      douts.set(m, step, upper, lower);
      queries.set(m, step, load(q, head.qkv_stride, row), load(q, head.qkv_stride, row + 8));
    });
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + 8 * half;
      const float lse = r < p.positions ? arrays.lse[head.row_sums + r] : 0.0f;
      statistics.exponent[m][half] = fmaf(lse, -log2_of_e, Tiles::rounding_exponent);
    }
  }
#pragma unroll
  for (int m = 0; m < Tiles::m_tiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + 16 * m + 8 * half + lane.g;
      float& delta = statistics.delta[m][half];
      delta += __shfl_xor_sync(0xffffffffu, delta, 1);
      delta += __shfl_xor_sync(0xffffffffu, delta, 2);
      if (lane.t == 0 && row < p.positions) arrays.delta[head.row_sums + row] = delta;
    }
  }
}

/// Where the sums of dq over a block's rows go. Those of dk lie `channels` further on, and those of
/// dv as far again.
template <class Tiles>
__device__ __forceinline__ float* sums_of_block(const attention_backward_arrays& arrays,
                                                const flash_head& head, int block_row,
                                                int row_blocks) {
  return arrays.dqkv_sums + (head.batch * row_blocks + block_row / Tiles::rows) * head.qkv_stride +
         head.within;
}

/// dq of a block of queries, and their delta.
template <class Tiles>
__device__ __forceinline__ void flash_backward_queries_block(
    const flash_problem& p, const attention_backward_arrays& arrays) {
  extern __shared__ __align__(128) float shared[];
  device::allow_next_kernel();
  const typename Tiles::reader reader;
  const int warp = own_warp();
  const int row_blocks = (p.positions + Tiles::rows - 1) / Tiles::rows;
  const flash_block block(p, row_blocks);
  const flash_head head(p, block.head);
  const float* const k = arrays.qkv + head.qkv + head.channels;
  const float* const v = k + head.channels;
  const int block_row = (row_blocks - 1 - block.row_block) * Tiles::rows;
  const int first_row = block_row + warp * Tiles::rows_per_warp;
  const int last_row = first_row + Tiles::rows_per_warp - 1;
  const int end = (min)(block_row + Tiles::rows, p.positions);

  tile_stream<Tiles, tile_order::forwards> tiles({k, head.qkv_stride}, {v, head.qkv_stride}, 0);
  tiles.load_next(p, 0, shared);
  device::commit_copies();

  float* const parked = shared + 2 * Tiles::stage_floats + warp * Tiles::parked_floats;
  typename Tiles::parked queries(parked), douts(parked + Tiles::parked::floats);
  query_statistics<Tiles> statistics;
  prepare_queries<Tiles>(p, arrays, head, first_row, queries, douts, statistics);

  typename Tiles::row_sums dq;
  device::set_zero<Tiles::m_tiles, Tiles::features / 8>(dq);
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

    typename Tiles::scores probabilities, dscores;
    device::multiply_rows(probabilities, queries, key_tile, reader);
    mask_later_keys<Tiles>(probabilities, first_row, first_key);
    for_each_score<Tiles>([&](int m, int n, int i, int, int) {
      float& x = probabilities[m][n][i];
      x = exp2_fast(fmaf(x, scale, statistics.exponent[m][i / 2]));
    });
    device::multiply_rows(dscores, douts, value_tile, reader);
    for_each_score<Tiles>([&](int m, int n, int i, int, int) {
      float& x = dscores[m][n][i];
      x = probabilities[m][n][i] * (x - statistics.delta[m][i / 2]);
    });
    device::multiply_columns<Tiles::arithmetic>(dq, dscores, key_tile, reader, device::unchanged{});
  }
  store_rows<Tiles>(p, dq, arrays.dqkv + head.qkv, head.qkv_stride, first_row,
                    [&](int, int) { return p.scale; });
  if (arrays.dqkv_sums != nullptr) {
    store_column_sums<Tiles>(p, dq, sums_of_block<Tiles>(arrays, head, block_row, row_blocks),
                             first_row, p.scale, shared);
  }
}

/// Streams lse and delta of the queries of each tile into shared memory, beside the tiles and
/// backwards like them.
template <class Tiles>
class statistics_stream {
 public:
  static constexpr int floats = 2 * Tiles::inner;  ///< of one stage: lse, then delta
  static_assert(floats <= Tiles::threads, "a thread copies one float");

  __device__ __forceinline__ statistics_stream(const float* lse, const float* delta,
                                               int first_query)
      : from_((own() < Tiles::inner ? lse : delta) + first_query + own() % Tiles::inner) {}

  /// Begins to copy those of the next tile, which begins with `first_query`.
  __device__ __forceinline__ void load_next(const flash_problem& p, int first_query,
                                            float* memory) {
    if (own() < floats) {
      device::copy_async_1(memory + own(), from_, first_query + own() % Tiles::inner < p.positions);
    }
    from_ -= Tiles::inner;
  }

 private:
  static __device__ __forceinline__ int own() { return static_cast<int>(threadIdx.x); }

  const float* from_;
};

/// Where rows are keys and columns queries: sets what belongs to earlier queries, or to none, to
/// -infinity.
template <class Tiles>
__device__ __forceinline__ void mask_earlier_queries(const flash_problem& p,
                                                     typename Tiles::scores& x, int first_key,
                                                     int first_query) {
  const int last_key = first_key + Tiles::rows_per_warp - 1;
  if (first_query >= last_key && first_query + Tiles::inner <= p.positions) return;
  for_each_score<Tiles>([&](int m, int n, int i, int row, int column) {
    const int query = first_query + column;
    if (query < first_key + row || query >= p.positions) x[m][n][i] = device::minus_infinity();
  });
}

/// dk and dv of a block of keys. Scores are made as K Q^T, a row for each key, so that here too a
/// warp's probabilities are the A fragments of the products that follow.
///
/// Tiles of queries come from the last to the first. Query t shares a weight of 1 among t + 1 keys,
/// so terms tend to grow that way, and a sum that stays small until its last terms loses little to
/// the rounding of each addition. In the other order that rounding was the largest part
/// of the error of dv in long sequences.
template <class Tiles>
__device__ __forceinline__ void flash_backward_keys_block(const flash_problem& p,
                                                          const attention_backward_arrays& arrays) {
  extern __shared__ __align__(128) float shared[];
  constexpr int statistics_floats = statistics_stream<Tiles>::floats;
  const typename Tiles::reader reader;
  const device::mma_lane lane;
  const int warp = own_warp();
  const int row_blocks = (p.positions + Tiles::rows - 1) / Tiles::rows;
  const flash_block block(p, row_blocks);
  const flash_head head(p, block.head);
  const float* const q = arrays.qkv + head.qkv;
  const float* const k = q + head.channels;
  const float* const v = k + head.channels;
  const int block_row = block.row_block * Tiles::rows;
  const int first_row = block_row + warp * Tiles::rows_per_warp;

  static_assert(Tiles::rows % Tiles::inner == 0, "a block begins at the beginning of a tile");
  const int last_tile = (p.positions - 1) / Tiles::inner * Tiles::inner;
  tile_stream<Tiles, tile_order::backwards> tiles(
      {q, head.qkv_stride}, {arrays.dout + head.out, head.channels}, last_tile);
  statistics_stream<Tiles> statistics(arrays.lse + head.row_sums, arrays.delta + head.row_sums,
                                      last_tile);
  float* const all_statistics =
      shared + 2 * Tiles::stage_floats + Tiles::warps * Tiles::parked_floats;
  const auto load_next = [&](int first_query, int stage) {
    tiles.load_next(p, first_query, shared + stage * Tiles::stage_floats);
    statistics.load_next(p, first_query, all_statistics + stage * statistics_floats);
    device::commit_copies();
  };
  device::wait_for_previous_kernel();  // for delta
  load_next(last_tile, 0);

  float* const parked = shared + 2 * Tiles::stage_floats + warp * Tiles::parked_floats;
  typename Tiles::parked keys(parked), values(parked + Tiles::parked::floats);
#pragma unroll
  for (int m = 0; m < Tiles::m_tiles; ++m) {
    const int row = first_row + 16 * m + lane.g;
    for_each_parked_step<Tiles>(p, [&](int step, auto load) {
      keys.set(m, step, load(k, head.qkv_stride, row), load(k, head.qkv_stride, row + 8));
      values.set(m, step, load(v, head.qkv_stride, row), load(v, head.qkv_stride, row + 8));
    });
  }

  typename Tiles::row_sums dk, dv;
  device::set_zero<Tiles::m_tiles, Tiles::features / 8>(dk);
  device::set_zero<Tiles::m_tiles, Tiles::features / 8>(dv);
  const float scale = p.scale * log2_of_e;
  int stage = 0;
#pragma unroll 1
  for (int first_query = last_tile; first_query >= block_row;
       first_query -= Tiles::inner, stage ^= 1) {
    const float* const query_tile = shared + stage * Tiles::stage_floats;
    const float* const dout_tile = query_tile + Tiles::tile_floats;
    const float* const lse_tile = all_statistics + stage * statistics_floats;
    const float* const delta_tile = lse_tile + Tiles::inner;
    device::wait_for_copies();
    __syncthreads();  // this tile is there for all, and all are done with the one before
    if (first_query > block_row) load_next(first_query - Tiles::inner, stage ^ 1);
    if (first_query + Tiles::inner - 1 < first_row) continue;  // no query here sees these keys

    typename Tiles::scores probabilities, dscores;
    device::multiply_rows(probabilities, keys, query_tile, reader);
    mask_earlier_queries<Tiles>(p, probabilities, first_row, first_query);
#pragma unroll
    for (int n = 0; n < Tiles::n_tiles; ++n) {
      const float2 own = *reinterpret_cast<const float2*>(lse_tile + 8 * n + 2 * lane.t);
      const float exponent[2] = {fmaf(own.x, -log2_of_e, Tiles::rounding_exponent),
                                 fmaf(own.y, -log2_of_e, Tiles::rounding_exponent)};
#pragma unroll
      for (int m = 0; m < Tiles::m_tiles; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& x = probabilities[m][n][i];
          x = exp2_fast(fmaf(x, scale, exponent[i % 2]));
        }
      }
    }
    device::multiply_rows(dscores, values, dout_tile, reader);
#pragma unroll
    for (int n = 0; n < Tiles::n_tiles; ++n) {
      const float2 own = *reinterpret_cast<const float2*>(delta_tile + 8 * n + 2 * lane.t);
#pragma unroll
      for (int m = 0; m < Tiles::m_tiles; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& x = dscores[m][n][i];
          x = probabilities[m][n][i] * (x - (i % 2 == 0 ? own.x : own.y));
        }
      }
    }
    device::multiply_columns<Tiles::arithmetic>(dv, probabilities, dout_tile, reader,
                                                device::unchanged{});
    device::multiply_columns<Tiles::arithmetic>(dk, dscores, query_tile, reader,
                                                device::unchanged{});
  }

  float* const dkeys = arrays.dqkv + head.qkv + head.channels;
  store_rows<Tiles>(p, dk, dkeys, head.qkv_stride, first_row, [&](int, int) { return p.scale; });
  store_rows<Tiles>(p, dv, dkeys + head.channels, head.qkv_stride, first_row,
                    [&](int, int) { return 1.0f; });
  if (arrays.dqkv_sums != nullptr) {
    float* const to = sums_of_block<Tiles>(arrays, head, block_row, row_blocks) + head.channels;
    store_column_sums<Tiles>(p, dk, to, first_row, p.scale, shared);
    store_column_sums<Tiles>(p, dv, to + head.channels, first_row, 1.0f, shared);
  }
}

/// The shared memory of the kernel for keys.
template <class Tiles>
inline constexpr std::size_t flash_backward_keys_shared_bytes =
    Tiles::shared_bytes + sizeof(float) * 2 * statistics_stream<Tiles>::floats;

template <class Tiles>
__global__ void __launch_bounds__(Tiles::threads, Tiles::blocks_per_sm)
    flash_backward_queries_mma_kernel(flash_problem p, attention_backward_arrays arrays) {
  if constexpr (Tiles::traits::is_compiled) flash_backward_queries_block<Tiles>(p, arrays);
}

template <class Tiles>
__global__ void __launch_bounds__(Tiles::threads, Tiles::blocks_per_sm)
    flash_backward_keys_mma_kernel(flash_problem p, attention_backward_arrays arrays) {
  if constexpr (Tiles::traits::is_compiled) flash_backward_keys_block<Tiles>(p, arrays);
}

}  // namespace detail
LLMC_NAMESPACE_END
