/// @file
/// What the wgmma kernels of products share, and how the splitting one stores a tile's sums.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/matmul/epilogue.cuh>
#include <llmc/detail/matmul/tile_walk.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/mbarrier.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// A product as the kernels take it, out of `rows` x `columns`.
struct wgmma_problem {
  tile_schedule schedule;
  std::int32_t rows;
  std::int32_t columns;
  std::int32_t inner;
  product_output to;
  product_operand first;
  product_operand second;
  float* partials;      ///< of the blocks among which tiles are cut
  std::int32_t* flags;  ///< 0 before and after
};

/// Completes the sums of a part: adds what other blocks left of its tile, or leaves them to the
/// block that finishes it. Returns whether they are complete.
template <int Groups, int Blocks, int Count>
__device__ __forceinline__ bool finish_sums_of_part(const wgmma_problem& p, const tile_part& part,
                                                    float (&sums)[Blocks][Count], int group) {
  if (part.begin == 0 && part.end == p.schedule.chunks) return true;
  const partial_sums<Groups, 128, Blocks * Count> partials(p.partials, p.flags, group, 1 + group);
  auto& all = reinterpret_cast<float(&)[Blocks * Count]>(sums);
  if (part.end < p.schedule.chunks) {
    partials.publish(all);
    return false;
  }
  partials.gather(all, p.schedule, part.first_on_line);
  return true;
}

/// Shared memory in which the consumers' warps exchange the sums of their columns.
inline constexpr int column_sum_exchange_floats = 8 * 128;

/// The sums over the tile's 128 rows of each of its 128 columns, from what each of the 8 consumer
/// warps has: four columns, 32 * i + 4t + 16 * e.., in own[i][e].
template <class Consumer>
__device__ __forceinline__ void store_column_sums(const wgmma_problem& p, const tile_part& part,
                                                  device::pack<4> (&own)[4][2],
                                                  const Consumer& self, float* exchange) {
  float* const warp_sums = exchange + (self.group * 4 + self.warp) * 128;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2) {  // over g
          own[i][e][j] += __shfl_xor_sync(0xffffffffu, own[i][e][j], distance);
        }
      }
      if (self.g == 0) device::store<4>(warp_sums + 32 * i + 4 * self.t + 16 * e, own[i][e]);
    }
  }
  constexpr int barrier = 5;
  device::synchronise_some(barrier, 256);
  const int column = static_cast<int>(threadIdx.x);
  if (column < 128 && part.column * 128 + column < p.columns) {
    float total = 0.0f;
#pragma unroll
    for (int warp = 0; warp < 8; ++warp) total += exchange[warp * 128 + column];
    p.to.column_sums[std::int64_t{part.row} * p.columns + part.column * 128 + column] = total;
  }
  device::synchronise_some(barrier, 256);  // before the next tile's sums
}

/// Stores a consumer thread's sums of a tile. Sum 16i + 4j + 2h + e of row block m is for row
/// self.row(part, m, h) and column 32i + 4t + 16e + j: four consecutive columns in four consecutive
/// threads.
///
/// What is read besides is loaded for two i at a time, before anything is stored: loads cannot pass
/// stores that may alias them, and one by one they would wait for memory 16 times.
template <epilogue_kind Kind, class Tiles, class Consumer>
__device__ __forceinline__ void store_tile_as(const wgmma_problem& p,
                                              const float (&sums)[Tiles::row_blocks][Tiles::sums],
                                              const tile_part& part, const Consumer& self,
                                              float* exchange) {
  constexpr bool sums_columns = Tiles::has_column_sums && Kind == epilogue_kind::gelu_gradient;
  const int first_column = part.column * Tiles::columns + 4 * self.t;
  device::pack<4> column_sums[4][2] = {};
#pragma unroll
  for (int m = 0; m < Tiles::row_blocks; ++m) {
#pragma unroll
    for (int pair = 0; pair < Tiles::columns / 32; pair += 2) {
      const auto for_each = [&](auto body) {  // i, h, e of this pair, inside the matrix
#pragma unroll
        for (int i = pair; i < pair + 2; ++i) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int column = first_column + 32 * i + 16 * e;
            if (column >= p.columns) continue;
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              const int row = self.row(part, m, h);
              if (row < p.rows) body(i, h, e, std::int64_t{row} * p.to.stride + column);
            }
          }
        }
      };
      device::pack<4> bias[2][2] = {};
      device::pack<4> other[2][2][2] = {};
      if (p.to.bias != nullptr) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int column = first_column + 32 * (pair + i) + 16 * e;
            if (column < p.columns) bias[i][e] = device::load<4>(p.to.bias + column);
          }
        }
      }
      for_each([&](int i, int h, int e, std::int64_t at) {
        other[i - pair][h][e] = load_other<Kind, 4>(p.to, at);
      });
      for_each([&](int i, int h, int e, std::int64_t at) {
        device::pack<4> x;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          x[j] = sums[m][16 * i + 4 * j + 2 * h + e] + bias[i - pair][e][j];
        }
        x = finish_sums<Kind, 4>(p.to, at, x, other[i - pair][h][e]);
        if constexpr (sums_columns) {
#pragma unroll
          for (int j = 0; j < 4; ++j) column_sums[i][e][j] += x[j];
        }
      });
    }
  }
  if constexpr (sums_columns) {
    if (p.to.column_sums != nullptr) store_column_sums(p, part, column_sums, self, exchange);
  }
}

template <class Tiles, class Consumer>
__device__ __forceinline__ void store_tile(const wgmma_problem& p,
                                           float (&sums)[Tiles::row_blocks][Tiles::sums],
                                           const tile_part& part, const Consumer& self,
                                           float* exchange) {
  if constexpr (Tiles::x3) {
    const int first_column = part.column * Tiles::columns + 4 * self.t;
#pragma unroll
    for (int m = 0; m < Tiles::row_blocks; ++m) {
      repair_sums(
          sums[m], p, [&](int i) { return self.row(part, m, i / 2 % 2); },
          [&](int i) { return first_column + i / 16 * 32 + i % 2 * 16 + i / 4 % 4; });
    }
  }
  with_epilogue_kind(p.to, [&](auto kind) {
    store_tile_as<decltype(kind)::value, Tiles>(p, sums, part, self, exchange);
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
