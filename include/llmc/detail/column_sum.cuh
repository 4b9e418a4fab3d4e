/// @file
/// Sums over the rows of a matrix, for every column. The gradient of a bias is made of such sums.
///
/// Deterministic, in two stages without atomics. Stage one: a block owns a tile of columns and a
/// run of rows; its warps share the rows, its lanes the columns, and it writes one partial sum a
/// column. Stage two: a block's warps share the partials of a column, each in order.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/column_sum.cuh>
#include <llmc/device/dependent_launch.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// How stage one cuts the rows. It depends on the shape alone, so that the bits do not depend on
/// the card: enough blocks to fill a large GPU, few enough that the partials stay small.
struct column_sum_plan {
  std::int64_t rows_per_chunk;
  std::int64_t chunks;
};
inline column_sum_plan plan_column_sum(row_shape shape) {
  constexpr std::int64_t fewest_rows = 64;
  constexpr std::int64_t most_chunks = 128;
  const std::int64_t wanted = ceil_div(shape.rows, most_chunks);
  const std::int64_t rows_per_chunk = wanted < fewest_rows ? fewest_rows : wanted;
  return {rows_per_chunk, ceil_div(shape.rows, rows_per_chunk)};
}

/// The scratch that `column_sum` needs for that many sums at once.
inline std::size_t column_sum_workspace_bytes(const char* function, row_shape shape, int sums) {
  return checks::bytes<float>(function, plan_column_sum(shape).chunks, sums, shape.channels);
}

/// Stage one over the whole grid. `RowValues<Width>` makes the terms, see column_sum_tile.
template <int Width, int Sums, int BlockSize, class RowValues>
__global__ void __launch_bounds__(BlockSize)
    column_sum_partials_kernel(float* partials, row_shape shape, column_sum_plan plan,
                               RowValues row_values) {
  device::allow_next_kernel();
  constexpr std::int64_t tile_columns = device::warp_size * Width;
  const std::int64_t tiles = (shape.channels + tile_columns - 1) / tile_columns;
  for (std::int64_t work = blockIdx.x; work < tiles * plan.chunks; work += gridDim.x) {
    const std::int64_t chunk = work / tiles;
    const std::int64_t first_row = chunk * plan.rows_per_chunk;
    const std::int64_t end_row = first_row + plan.rows_per_chunk;
    device::column_sum_tile<Width, Sums, BlockSize>(
        partials + chunk * Sums * shape.channels, first_row,
        end_row < shape.rows ? end_row : shape.rows, (work % tiles) * tile_columns, shape.channels,
        row_values);
  }
}

/// The destinations of the sums, in the order of the values that RowValues sets.
template <int Sums>
struct column_sum_outputs {
  float* sums[Sums];

  /// `sums[which]`, by selection: an index known only at run time would move the array to memory.
  __device__ float* of(std::int64_t which) const {
    float* selected = sums[0];
#pragma unroll
    for (int s = 1; s < Sums; ++s) {
      if (which == s) selected = sums[s];
    }
    return selected;
  }
};

/// The threads of stage two: so many that each has only a load or two.
inline constexpr int column_sum_total_threads = 1024;

/// Stage two: a block owns 32 sums. Its warps share their chunks, so that many loads are on their
/// way at once; then one warp adds what the warps have, in their order. With no rows a sum is 0.
template <int Sums>
__global__ void __launch_bounds__(column_sum_total_threads)
    column_sum_total_kernel(column_sum_outputs<Sums> out, const float* partials,
                            std::int64_t columns, std::int64_t chunks, accumulation mode) {
  constexpr int warps = column_sum_total_threads / device::warp_size;
  __shared__ float shared[warps][device::warp_size];
  const int lane = threadIdx.x % device::warp_size;
  const int warp = threadIdx.x / device::warp_size;
  const std::int64_t sums = Sums * columns;
  device::wait_for_previous_kernel();
  for (std::int64_t first = std::int64_t{blockIdx.x} * device::warp_size; first < sums;
       first += std::int64_t{gridDim.x} * device::warp_size) {
    const std::int64_t i = first + lane;
    float total = 0.0f;
    if (i < sums) {
#pragma unroll 8
      for (std::int64_t chunk = warp; chunk < chunks; chunk += warps) {
        total += partials[chunk * sums + i];
      }
    }
    shared[warp][lane] = total;
    __syncthreads();
    if (warp == 0 && i < sums) {
#pragma unroll
      for (int w = 1; w < warps; ++w) total += shared[w][lane];
      float* to = out.of(i / columns) + i % columns;
      *to = mode == accumulation::add ? *to + total : total;
    }
    __syncthreads();  // before the next turn writes `shared`
  }
}

/// Stage two of partials that are there already.
template <int Sums>
void column_sum_total(const char* function, column_sum_outputs<Sums> out, const float* partials,
                      std::int64_t columns, std::int64_t chunks, accumulation mode,
                      cudaStream_t stream) {
  launch({function, ceil_div(Sums * columns, device::warp_size), column_sum_total_threads, 0,
          stream, true},
         column_sum_total_kernel<Sums>, out, partials, columns, chunks, mode);
}

/// Both stages. `wide` says whether RowValues may read 4 columns at once; the partials' own rows
/// are then 16-byte aligned too, since they have the same number of columns.
template <int Sums, int BlockSize, class RowValues>
void column_sum(const char* function, column_sum_outputs<Sums> out, void* workspace,
                row_shape shape, bool wide, RowValues row_values, accumulation mode,
                cudaStream_t stream) {
  float* partials = static_cast<float*>(workspace);
  const column_sum_plan plan = plan_column_sum(shape);
  if (shape.rows > 0) checks::require_pointer(function, "workspace", workspace);
  with_access_width(wide && is_16_byte_accessible(shape.channels, partials), [&](auto width) {
    constexpr int columns_per_block = device::warp_size * width();
    const std::int64_t blocks = ceil_div(shape.channels, columns_per_block) * plan.chunks;
    launch({function, blocks, BlockSize, 0, stream},
           column_sum_partials_kernel<width(), Sums, BlockSize, RowValues>, partials, shape, plan,
           row_values);
  });
  column_sum_total(function, out, partials, shape.channels, plan.chunks, mode, stream);
}

}  // namespace detail
LLMC_NAMESPACE_END
