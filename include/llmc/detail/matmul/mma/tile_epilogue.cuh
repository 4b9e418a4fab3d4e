/// @file
/// The epilogue of a tile of sums that lies in shared memory. A loop over its rows serves any
/// kernel, whatever its fragments were like; it takes few registers and whole lines of memory at a
/// time.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cmath>
#include <cstdint>

#include <llmc/detail/matmul/epilogue.cuh>
#include <llmc/detail/matmul/exact_sums.cuh>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/product_tile.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// A tile of sums and its place in out. Each of its rows is a line of device::swizzled_lines.
template <int Rows, int Columns>
struct parked_tile {
  static_assert(Rows == products::column_sum_rows, "a tile makes one row of column_sums");

  float* memory;
  std::int64_t first_row;
  std::int64_t first_column;
  int rows;     ///< in out, at most Rows
  int columns;  ///< in out, at most Columns

  static constexpr int floats = Rows * Columns;
  __device__ __forceinline__ float* at(int row, int column) const {
    return memory + device::swizzled_lines<Columns>::offset(row, column / 4) + column % 4;
  }
};

/// Computes again the sums that are not finite, see ieee_sum. All threads of the block call it.
template <class Tiles>
__device__ __forceinline__ void repair_tile(const typename Tiles::result& tile,
                                            const products::operand& first,
                                            const products::operand& second, std::int64_t inner) {
  const int count = tile.rows * tile.columns;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < count; i += Tiles::threads) {
    const int row = i / tile.columns, column = i % tile.columns;
    float& sum = *tile.at(row, column);
    if (!isfinite(sum)) {
      sum = ieee_sum<Tiles::layout_1, Tiles::layout_2>(first, second, tile.first_row + row,
                                                       tile.first_column + column, inner);
    }
  }
}

/// Adds up the threads' sums of columns and stores them. `row_threads` threads share a column; this
/// one is number `own_row` of them. Their sums meet in the tile's memory, which is free by then.
template <int Width, int Threads, int Rows, int Columns>
__device__ __forceinline__ void store_column_sums(const parked_tile<Rows, Columns>& tile,
                                                  float* column_sums, int own_row, int own_column,
                                                  device::pack<Width> own) {
  constexpr int row_threads = Threads * Width / Columns;
  __syncthreads();  // all have read the tile
  device::store<Width>(tile.memory + own_row * Columns + own_column, own);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < tile.columns; i += Threads) {
    float sum = 0.0f;
#pragma unroll
    for (int row = 0; row < row_threads; ++row) sum += tile.memory[row * Columns + i];
    column_sums[i] = sum;
  }
}

/// Takes the sums of a tile through the epilogue. All `Threads` threads call it. `columns` is the
/// number of columns of out; Width 4 wants it and the tile's to be multiples of 4.
template <epilogue_kind Kind, int Width, int Threads, int Rows, int Columns>
__device__ __forceinline__ void finish_tile(const parked_tile<Rows, Columns>& tile,
                                            const product_output& to, std::int64_t columns) {
  using pack = device::pack<Width>;
  constexpr int packs = Columns / Width;         // in a row
  constexpr int rows_at_once = Threads / packs;  // by all threads
  constexpr int batch = Width == 4 ? 4 : 8;      // rows whose loads are begun at a time
  static_assert(Threads % packs == 0 && Rows % (batch * rows_at_once) == 0,
                "the threads share out the rows evenly");
  const int own_row = static_cast<int>(threadIdx.x) / packs;
  const int column = static_cast<int>(threadIdx.x) % packs * Width;
  pack column_sum{};
  if (column < tile.columns) {
    const std::int64_t at = tile.first_row * to.stride + tile.first_column + column;
    const pack bias =
        to.bias == nullptr ? pack{} : device::load<Width>(to.bias + tile.first_column + column);
#pragma unroll 1
    for (int first = own_row; first < tile.rows; first += batch * rows_at_once) {
      pack other[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        const int row = first + i * rows_at_once;
        if (row < tile.rows) other[i] = load_other<Kind, Width>(to, at + row * to.stride);
      }
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        const int row = first + i * rows_at_once;
        if (row >= tile.rows) break;
        pack x = device::load<Width>(tile.at(row, column));
#pragma unroll
        for (int j = 0; j < Width; ++j) x[j] += bias[j];
        x = finish_sums<Kind, Width>(to, at + row * to.stride, x, other[i]);
#pragma unroll
        for (int j = 0; j < Width; ++j) column_sum[j] += x[j];
      }
    }
  }
  if (to.column_sums != nullptr) {
    float* const sums =
        to.column_sums + tile.first_row / products::column_sum_rows * columns + tile.first_column;
    store_column_sums<Width, Threads>(tile, sums, own_row, column, column_sum);
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
