/// @file
/// Products by mma.sync (sm_80 on), of any shape and alignment. They run where wgmma cannot.
///
/// A block of four warps owns a tile of the result and streams tiles of 32 k of both operands
/// through a ring in shared memory. Layouts and fragments are in device/product_tile.cuh; finished
/// sums go through shared memory, too, see tile_epilogue.cuh.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/matmul/epilogue.cuh>
#include <llmc/detail/matmul/exact_sums.cuh>
#include <llmc/detail/matmul/mma/tile_epilogue.cuh>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/copy_async.cuh>
#include <llmc/device/operand.cuh>
#include <llmc/device/product_tile.cuh>
#include <llmc/device/tensor_core/precision.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The sizes of a kernel: the best of those tried on an H100.
template <precision Arithmetic, products::layout First, products::layout Second>
struct mma_tiles {
  static constexpr precision arithmetic = Arithmetic;
  static constexpr products::layout layout_1 = First;
  static constexpr products::layout layout_2 = Second;
  using traits = device::precision_traits<Arithmetic>;
  static constexpr bool x3 = traits::is_split;

  static constexpr int row_groups = 2;              ///< of 32 rows, in a warp
  static constexpr int column_groups = x3 ? 1 : 2;  ///< of 32 columns, in a warp
  static constexpr int warps_down = 2;
  static constexpr int warps_across = 2;
  static constexpr int rows = 32 * row_groups * warps_down;
  static constexpr int columns = 32 * column_groups * warps_across;
  static constexpr int threads = 32 * warps_down * warps_across;
  static constexpr int blocks_per_sm = 2;
  static constexpr int sums = 32 * row_groups * column_groups;  ///< of a thread
  /// An architecture without these instructions gets an empty kernel that says so by its bounds.
  static constexpr int launch_bound = traits::is_compiled ? threads : 32;

  using tile_1 = device::product_tile<First, rows>;
  using tile_2 = device::product_tile<Second, columns>;
  using loader_1 = device::product_tile_loader<First, rows, threads>;
  using loader_2 = device::product_tile_loader<Second, columns, threads>;
  using reader_1 = device::product_tile_reader<First, rows>;
  using reader_2 = device::product_tile_reader<Second, columns>;
  using warp_sums = device::mma_accumulators<2 * row_groups, 4 * column_groups>;
  using result = parked_tile<rows, columns>;

  static constexpr int stage_floats = tile_1::floats + tile_2::floats;
  static constexpr int least_stages = 2;
  static constexpr int most_stages = x3 ? 4 : 3;
  static_assert(result::floats <= least_stages * stage_floats, "the sums lie where the ring was");
};

struct mma_problem {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t inner;
  std::int64_t row_tiles;
  std::int64_t column_tiles;
  std::int32_t steps;          ///< tiles of the operands, one behind the other, in a slice
  std::int32_t steps_per_sum;  ///< see chunks_per_sum
  std::int64_t slice_inner;    ///< terms of the sum in a slice, a multiple of 32
  std::int64_t slice_floats;   ///< from the sums of one slice to those of the next
  products::operand first;
  products::operand second;
  product_output to;
  bool wide_1;  ///< the first operand can be copied 16 bytes at a time
  bool wide_2;
  bool wide_out;
  int stages;  ///< of the ring
};

/// The part of a product that is slice number `slice` of its sum.
template <class Tiles>
__device__ __forceinline__ mma_problem slice_of(mma_problem p, std::int64_t slice) {
  const std::int64_t first = slice * p.slice_inner;
  p.first.data = device::element<Tiles::layout_1>(p.first, 0, first);
  p.second.data = device::element<Tiles::layout_2>(p.second, 0, first);
  p.inner = p.inner - first < p.slice_inner ? p.inner - first : p.slice_inner;
  p.steps = static_cast<std::int32_t>((p.inner + 31) / 32);
  p.to.out += slice * p.slice_floats;
  return p;
}

/// The row and column of a tile, counted in tiles. Tiles are numbered down groups of 8 rows, so
/// that blocks that run at the same time share operands in the L2 cache.
struct mma_place {
  std::int32_t row_tile;
  std::int32_t column_tile;
};
__device__ __forceinline__ mma_place place_of(const mma_problem& p, std::int64_t tile) {
  constexpr std::int64_t group_rows = 8;
  const std::int64_t group_tiles = group_rows * p.column_tiles;
  const std::int64_t first = tile / group_tiles * group_rows;
  const std::int64_t in_group = tile % group_tiles;
  const std::int64_t left = p.row_tiles - first;
  const std::int64_t rows = left < group_rows ? left : group_rows;
  return {static_cast<std::int32_t>(first + in_group % rows),
          static_cast<std::int32_t>(in_group / rows)};
}

/// The warp's part of a tile.
template <class Tiles>
struct warp_part {
  int warp = static_cast<int>(threadIdx.x) / 32;
  int row = warp % Tiles::warps_down * (32 * Tiles::row_groups);
  int column = warp / Tiles::warps_down * (32 * Tiles::column_groups);
};

// ---- the sums ----

/// sums += the products of a tile, in tf32. The tensor core truncates each sum it adds to. That
/// error stays far below the rounding of the operands: 6e-5 against 3e-4 for a sum of 50000.
template <class Tiles>
__device__ __forceinline__ void multiply_tile(typename Tiles::warp_sums& sums, const float* tile_1,
                                              const float* tile_2,
                                              const typename Tiles::reader_1& read_1,
                                              const typename Tiles::reader_2& read_2) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float square[4][4];
    device::operand_fragment<Tiles::arithmetic, 2> b[Tiles::column_groups][2][4];
#pragma unroll
    for (int n = 0; n < Tiles::column_groups; ++n) {
      read_2.read(square, tile_2, n, half);
      device::set_column_fragments<Tiles::arithmetic>(b[n], square);
    }
#pragma unroll
    for (int m = 0; m < Tiles::row_groups; ++m) {
      device::operand_fragment<Tiles::arithmetic, 4> a[2][2];
      read_1.read(square, tile_1, m, half);
      device::set_row_fragments<Tiles::arithmetic>(a, square);
#pragma unroll
      for (int step = 0; step < 2; ++step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int j = 0; j < 4 * Tiles::column_groups; ++j) {
            Tiles::traits::multiply(sums[2 * m + i][j], a[step][i].high,
                                    b[j / 4][step][j % 4].high);
          }
        }
      }
    }
  }
}

/// The same in tf32x3. 32 terms are summed in fresh accumulators, all small products (low * high,
/// high * low) before the large ones, and then added by FP32 additions, which round. So the tensor
/// core truncates sums that have grown large only four times, and never the running sums.
template <class Tiles>
__device__ __forceinline__ void multiply_tile_x3(typename Tiles::warp_sums& sums,
                                                 const float* tile_1, const float* tile_2,
                                                 const typename Tiles::reader_1& read_1,
                                                 const typename Tiles::reader_2& read_2) {
  static_assert(Tiles::column_groups == 1, "more would not fit in registers");
  float square[4][4];
  device::operand_fragment<Tiles::arithmetic, 2> b[2][2][4];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    read_2.read(square, tile_2, 0, half);
    device::set_column_fragments<Tiles::arithmetic>(b[half], square);
  }
#pragma unroll
  for (int m = 0; m < Tiles::row_groups; ++m) {
    device::mma_accumulators<2, 4> fresh;
    device::set_zero<2, 4>(fresh);
    device::operand_fragment<Tiles::arithmetic, 4> a[2][2][2];
    const auto for_each = [&](int half, auto multiply) {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            multiply(fresh[i][j], a[half][step][i], b[half][step][j]);
          }
        }
      }
    };
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      read_1.read(square, tile_1, m, half);
      device::set_row_fragments<Tiles::arithmetic>(a[half], square);
      for_each(half, [](auto& sum, const auto& x, const auto& y) {
        Tiles::traits::multiply(sum, x.low, y.high);
      });
      for_each(half, [](auto& sum, const auto& x, const auto& y) {
        Tiles::traits::multiply(sum, x.high, y.low);
      });
    }
    const float factor = Tiles::traits::truncation_factor(a[1][1][1], 1);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      for_each(half, [](auto& sum, const auto& x, const auto& y) {
        Tiles::traits::multiply(sum, x.high, y.high);
      });
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          sums[2 * m + i][j][e] = fmaf(fresh[i][j][e], factor, sums[2 * m + i][j][e]);
        }
      }
    }
  }
}

/// Waits until the oldest of the stages - 1 tiles on their way to the ring has come.
__device__ __forceinline__ void wait_for_oldest(int stages) {
  if (stages == 4) {
    device::wait_for_copies<2>();
  } else if (stages == 3) {
    device::wait_for_copies<1>();
  } else {
    device::wait_for_copies<0>();
  }
}

/// All k of a tile of the result.
template <class Tiles>
__device__ __forceinline__ void sum_products(typename Tiles::warp_sums& sums, const mma_problem& p,
                                             const mma_place& place, const warp_part<Tiles>& part,
                                             float* ring) {
  typename Tiles::loader_1 load_1(p.first.data, p.first.stride, p.wide_1,
                                  std::int64_t{place.row_tile} * Tiles::rows, p.rows);
  typename Tiles::loader_2 load_2(p.second.data, p.second.stride, p.wide_2,
                                  std::int64_t{place.column_tile} * Tiles::columns, p.columns);
  const typename Tiles::reader_1 read_1(part.row);
  const typename Tiles::reader_2 read_2(part.column);
  constexpr int depth = Tiles::tile_1::depth;
  const auto load_next = [&](int stage, std::int32_t step) {
    if (step < p.steps) {
      const std::int64_t left = p.inner - std::int64_t{step} * depth;
      const int there = left < depth ? static_cast<int>(left) : depth;
      float* const memory = ring + stage * Tiles::stage_floats;
      load_1.load_next(memory, there);
      load_2.load_next(memory + Tiles::tile_1::floats, there);
    }
    device::commit_copies();  // an empty group, too: wait_for_oldest counts them
  };
  device::set_zero<2 * Tiles::row_groups, 4 * Tiles::column_groups>(sums);
  auto& all = reinterpret_cast<float(&)[Tiles::sums]>(sums);
  long_sums<Tiles::sums> totals;
  int until_absorbed = p.steps_per_sum;
  const int last_stage = p.stages - 1;
#pragma unroll 1
  for (int stage = 0; stage < last_stage; ++stage) load_next(stage, stage);
  int stage = 0;
#pragma unroll 1
  for (std::int32_t step = 0; step < p.steps; ++step) {
    wait_for_oldest(p.stages);
    __syncthreads();  // this tile is there for all, and all are done with the one before
    load_next(stage == 0 ? last_stage : stage - 1, step + last_stage);
    const float* const memory = ring + stage * Tiles::stage_floats;
    const float* const memory_2 = memory + Tiles::tile_1::floats;
    if constexpr (Tiles::x3) {
      multiply_tile_x3<Tiles>(sums, memory, memory_2, read_1, read_2);
      if (--until_absorbed == 0) {
        totals.absorb(all);
        until_absorbed = p.steps_per_sum;
      }
    } else {
      multiply_tile<Tiles>(sums, memory, memory_2, read_1, read_2);
    }
    stage = stage == last_stage ? 0 : stage + 1;
  }
  if constexpr (Tiles::x3) totals.finish(all);
}

// ---- the kernel ----

/// 0, or NaN if a sum is not finite.
template <int Rows, int Columns>
__device__ __forceinline__ float probe(const device::mma_accumulators<Rows, Columns>& sums) {
  float result = 0.0f;
#pragma unroll
  for (int m = 0; m < Rows; ++m) {
#pragma unroll
    for (int n = 0; n < Columns; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) result = fmaf(sums[m][n][i], 0.0f, result);
    }
  }
  return result;
}

/// Puts the warps' sums together in shared memory. In tf32x3 those that are not finite become what
/// IEEE arithmetic gives.
template <class Tiles>
__device__ __forceinline__ void park_tile(const typename Tiles::result& tile,
                                          const typename Tiles::warp_sums& sums,
                                          const warp_part<Tiles>& part, const mma_problem& p) {
  constexpr int m_tiles = 2 * Tiles::row_groups, n_tiles = 4 * Tiles::column_groups;
  __syncthreads();  // all are done with the ring
  device::park_sums<Tiles::columns, m_tiles, n_tiles>(tile.memory, part.row, part.column, sums);
  if constexpr (Tiles::x3) {
    if (__syncthreads_or(isnan(probe<m_tiles, n_tiles>(sums)))) {
      repair_tile<Tiles>(tile, p.first, p.second, p.inner);
      __syncthreads();
    }
  } else {
    __syncthreads();
  }
}

template <class Tiles>
__device__ __forceinline__ void finish_tile_as_wide_as_possible(const typename Tiles::result& tile,
                                                                const mma_problem& p) {
  with_epilogue_kind(p.to, [&](auto kind) {
    constexpr epilogue_kind Kind = decltype(kind)::value;
    if (p.wide_out) {
      finish_tile<Kind, 4, Tiles::threads>(tile, p.to, p.columns);
    } else {
      finish_tile<Kind, 1, Tiles::threads>(tile, p.to, p.columns);
    }
  });
}

/// The tile in shared memory, where the ring was.
template <class Tiles>
__device__ __forceinline__ typename Tiles::result result_of(const mma_problem& p,
                                                            const mma_place& place, float* memory) {
  const std::int64_t row = std::int64_t{place.row_tile} * Tiles::rows;
  const std::int64_t column = std::int64_t{place.column_tile} * Tiles::columns;
  const std::int64_t rows = p.rows - row, columns = p.columns - column;
  return {memory, row, column, static_cast<int>(rows < Tiles::rows ? rows : Tiles::rows),
          static_cast<int>(columns < Tiles::columns ? columns : Tiles::columns)};
}

/// A block makes one tile of one slice.
template <class Tiles>
__global__ void __launch_bounds__(Tiles::launch_bound, Tiles::blocks_per_sm)
    mma_kernel(const __grid_constant__ mma_problem whole, std::int64_t first_tile) {
  if constexpr (Tiles::traits::is_compiled) {
    extern __shared__ __align__(128) float product_shared[];
    const std::int64_t tiles = whole.row_tiles * whole.column_tiles;
    const std::int64_t tile = first_tile + blockIdx.x;
    const mma_problem p = slice_of<Tiles>(whole, tile / tiles);
    const mma_place place = place_of(p, tile % tiles);
    const warp_part<Tiles> part;
    typename Tiles::warp_sums sums;
    sum_products<Tiles>(sums, p, place, part, product_shared);
    const auto result = result_of<Tiles>(p, place, product_shared);
    park_tile<Tiles>(result, sums, part, p);
    finish_tile_as_wide_as_possible<Tiles>(result, p);
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
