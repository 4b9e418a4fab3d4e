/// @file
/// The rungs on which a thread owns many sums: a float that it has read from shared memory serves a
/// row or a column of them.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/matmul/ladder/problem.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/operand.cuh>
#include <llmc/device/register_product.cuh>
#include <llmc/device/sum_in_parts.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// A thread owns Down x Across sums of a square of Side x Side. The sums are dealt out so that the
/// threads of a warp have neighbouring columns. Of 128 x 128 sums, thread (y, x) of 16 x 16 has
/// rows y, y + 16, ... and columns x, x + 16, ...:
///
///     x         0 1 2 ... 15 | 0 1 2 ... 15 | ...
///     column    0 1 2 ... 15  16 17 18 .. 31  ...
///
/// A step of the sum takes Down + Across loads from shared memory for Down * Across multiply-adds:
/// 9 for 8 (8 x 1), 16 for 64 (8 x 8); without a register tile it is 2 for 1.
template <int Down, int Across, int Side>
struct register_tile {
  static constexpr int down = Down;
  static constexpr int across = Across;
  static constexpr int side = Side;
  static constexpr int depth = 8;  ///< steps of the sum in shared memory at a time
  static constexpr int sums = Down * Across;
  static constexpr int threads = Side * Side / sums;
  static constexpr int threads_down = Side / Down;
  static constexpr int threads_across = Side / Across;
  static constexpr int loads = Side * depth / threads;  ///< of a thread, for each operand

  /// One line for each k. With four floats more, the 8 k of 4 outers that a warp stores at once
  /// fall into 32 banks.
  using line = float[Side + 4];
  using lines = line[depth];
};
using register_tile_8x1 = register_tile<8, 1, 64>;
using register_tile_8x8 = register_tile<8, 8, 128>;

/// Copies a tile of an operand, a float at a time, along the lines in memory; zeros where the
/// matrix ends.
template <products::layout Order, class Tile>
__device__ __forceinline__ void load_lines(typename Tile::lines& to, const products::operand& m,
                                           std::int64_t outers, std::int64_t first_outer,
                                           std::int64_t first_k, std::int64_t inner) {
  constexpr bool inner_first = Order == products::layout::inner_first;
#pragma unroll
  for (int i = 0; i < Tile::loads; ++i) {
    const int at = static_cast<int>(threadIdx.x) + i * Tile::threads;
    const int outer = inner_first ? at / Tile::depth : at % Tile::side;
    const int k = inner_first ? at % Tile::depth : at / Tile::side;
    const bool inside = first_outer + outer < outers && first_k + k < inner;
    to[k][outer] = inside ? *device::element<Order>(m, first_outer + outer, first_k + k) : 0.0f;
  }
}

/// sums += the products of a tile, of thread (y, x).
template <class Tile>
__device__ __forceinline__ void multiply_lines(float (&sums)[Tile::sums],
                                               const typename Tile::lines& first,
                                               const typename Tile::lines& second, int y, int x) {
#pragma unroll
  for (int k = 0; k < Tile::depth; ++k) {
    float a[Tile::down];
    float b[Tile::across];
#pragma unroll
    for (int i = 0; i < Tile::down; ++i) a[i] = first[k][y + i * Tile::threads_down];
#pragma unroll
    for (int j = 0; j < Tile::across; ++j) b[j] = second[k][x + j * Tile::threads_across];
#pragma unroll
    for (int i = 0; i < Tile::down; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::across; ++j) {
        float& sum = sums[i * Tile::across + j];
        sum = fmaf(a[i], b[j], sum);
      }
    }
  }
}

template <class Layouts, class Tile>
__global__ void __launch_bounds__(Tile::threads, 2) register_tile_kernel(rung_problem p) {
  __shared__ typename Tile::lines first;
  __shared__ typename Tile::lines second;
  const int x = static_cast<int>(threadIdx.x) % Tile::threads_across;
  const int y = static_cast<int>(threadIdx.x) / Tile::threads_across;
  for_each_tile(p, Tile::side, [&](std::int64_t row, std::int64_t column) {
    float sums[Tile::sums] = {};
    device::summed_parts<Tile::sums> parts;
    for (std::int64_t k = 0; k < p.inner; parts.absorb(sums)) {
      for (int i = 0; i < device::terms_per_part && k < p.inner; i += Tile::depth) {
        load_lines<Layouts::first, Tile>(first, p.first, p.rows, row, k, p.inner);
        load_lines<Layouts::second, Tile>(second, p.second, p.columns, column, k, p.inner);
        k += Tile::depth;
        __syncthreads();
        multiply_lines<Tile>(sums, first, second, y, x);
        __syncthreads();  // before the next tiles come
      }
    }
    parts.finish(sums);
#pragma unroll
    for (int i = 0; i < Tile::down; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::across; ++j) {
        put_sum(p, row + y + i * Tile::threads_down, column + x + j * Tile::threads_across,
                sums[i * Tile::across + j]);
      }
    }
  });
}

/// The tile of device/register_product.cuh: vectorised and double-buffered and, with `ByWarps`,
/// shared out by warps. Two blocks share a multiprocessor, so that one computes while the other
/// waits at its barrier.
template <class Layouts, bool ByWarps>
__global__ void __launch_bounds__(device::register_product_tile::threads, 2)
    register_product_kernel(rung_problem p) {
  using block_product = device::register_product<Layouts::first, Layouts::second, ByWarps>;
  __shared__ typename block_product::storage memory;
  for_each_tile(p, block_product::side, [&](std::int64_t first_row, std::int64_t first_column) {
    block_product tile(memory);
    tile.multiply(p.first, p.second, {p.rows, p.columns, p.inner}, first_row, first_column);
    tile.for_each_quad([&](int row, int column, device::pack<4> sums) {
      put_quad(p, first_row + row, first_column + column, sums);
    });
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
