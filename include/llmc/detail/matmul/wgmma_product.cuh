/// @file
/// Launching the wgmma kernels: what they can take, and how operands are described to bulk copies.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/matmul/wgmma_direct.cuh>
#include <llmc/detail/matmul/wgmma_split.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/matmul_context.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Why bulk copies and 16-byte stores cannot do a product, or null if they can.
inline const char* why_not_wgmma(const products::product& p) {
  constexpr std::int64_t most_rows = std::int64_t{1} << 30;    // coordinates have 32 bits
  constexpr std::int64_t most_inner = std::int64_t{1} << 26;   // chunks on the line of cut tiles
  constexpr std::int64_t most_stride = std::int64_t{1} << 37;  // 2^40 bytes
  constexpr std::int64_t most_tiles = std::int64_t{1} << 30;
  const products::epilogue& e = p.then;
  if (p.batch != 1 || p.factor != 1.0f) return "it is one of a batch or scaled";
  if (p.inp1.transposed && p.inp2.transposed) return "both operands are transposed";
  if (e.column_sums != nullptr && e.gelu_inp == nullptr) {
    return "the kernel sums columns of a GELU's gradient only";
  }
  if (p.rows > most_rows || p.columns > most_rows || p.inner > most_inner ||
      ceil_div(p.rows, 128) * ceil_div(p.columns, 128) > most_tiles) {
    return "it is too large";
  }
  if (p.inp1.stride > most_stride || p.inp2.stride > most_stride)
    return "its strides are too large";
  if (p.columns % 4 != 0 || p.inp1.stride % 4 != 0 || p.inp2.stride % 4 != 0 ||
      p.out.stride % 4 != 0) {
    return "an extent is not a multiple of 4";
  }
  if (!is_16_byte_aligned(p.out.data, p.inp1.data, p.inp2.data, e.bias, e.before_gelu, e.gelu_inp,
                          e.residual, e.column_sums)) {
    return "a pointer is not aligned to 16 bytes";
  }
  return nullptr;
}

/// A matrix with `columns` (its innermost extent) and `rows`, in boxes of 32 x `box_rows`.
inline products::tensor_box boxes_of(const products::matrix<const float>& m, std::int64_t columns,
                                     std::int64_t rows, std::uint32_t box_rows, bool rounds) {
  return {m.data,
          static_cast<std::uint64_t>(columns),
          static_cast<std::uint64_t>(rows),
          static_cast<std::uint64_t>(m.stride) * sizeof(float),
          tile_chunk,
          box_rows,
          rounds};
}
inline products::tensor_box first_boxes(const products::product& p, std::uint32_t box_rows,
                                        bool rounds) {
  return p.inp1.transposed ? boxes_of(p.inp1, p.rows, p.inner, box_rows, rounds)
                           : boxes_of(p.inp1, p.inner, p.rows, box_rows, rounds);
}
inline products::tensor_box second_boxes(const products::product& p, std::uint32_t box_rows,
                                         bool rounds) {
  return p.inp2.transposed ? boxes_of(p.inp2, p.inner, p.columns, box_rows, rounds)
                           : boxes_of(p.inp2, p.columns, p.inner, box_rows, rounds);
}

/// How many rows of tiles share their columns' tiles in the L2 cache. Where the sum is over the
/// rows of both operands, as in a weight's gradient, the operands are long and their k, not their
/// tiles, should be met together: then blocks go down all rows first, if there are not too many.
inline int tile_group(std::int64_t row_tiles, int tile_rows, bool long_sum) {
  constexpr int cached_rows = 2048;
  constexpr int most_row_tiles = 24;
  if (long_sum && row_tiles <= most_row_tiles) return static_cast<int>(row_tiles);
  return cached_rows / tile_rows;
}

inline wgmma_problem wgmma_problem_of(const products::product& p, const tile_schedule& schedule,
                                      matmul_context& context) {
  return {schedule,
          static_cast<std::int32_t>(p.rows),
          static_cast<std::int32_t>(p.columns),
          static_cast<std::int32_t>(p.inner),
          output_of(p),
          first_operand(p.inp1),
          second_operand(p.inp2),
          static_cast<float*>(context.workspace()),
          context.flags()};
}

/// Launches a kernel on persistent blocks, one a multiprocessor.
template <class Tiles, class Kernel>
void launch_wgmma(const char* function, Kernel kernel, const products::product& p,
                  const tile_schedule& schedule, const products::tensor_box& first,
                  const products::tensor_box& second, matmul_context& context,
                  cudaStream_t stream) {
  launch({function, schedule.blocks, Tiles::threads, Tiles::shared_bytes, stream}, kernel,
         wgmma_problem_of(p, schedule, context), context.tensor_map(function, first),
         context.tensor_map(function, second));
}

/// Blocks among which tiles may be cut: those whose partial sums fit the context's workspace.
template <int TileSums>
int most_blocks(const matmul_context& context) {
  constexpr std::size_t block_bytes = sizeof(float) * TileSums;
  constexpr int room = static_cast<int>(matmul_context::workspace_bytes / block_bytes);
  constexpr int flags = matmul_context::flag_count / 2;
  const int wanted = context.multiprocessors();
  return wanted < room && wanted < flags ? wanted : room < flags ? room : flags;
}

/// By the kernel of wgmma_split.cuh. `Cuts`: the last tiles are cut among the blocks.
template <class Tiles, bool Cuts>
void multiply_by_wgmma_split(const char* function, const products::product& p,
                             matmul_context& context, cudaStream_t stream) {
  const int group = tile_group(ceil_div(p.rows, Tiles::rows), Tiles::rows, !Tiles::inner_first_1);
  const tile_schedule schedule =
      make_tile_schedule(p.rows, p.columns, p.inner, Tiles::rows, Tiles::columns, group,
                         most_blocks<Tiles::rows * Tiles::columns>(context), Cuts);
  launch_wgmma<Tiles>(function, wgmma_split_kernel<Tiles>, p, schedule, first_boxes(p, 32, false),
                      second_boxes(p, 32, false), context, stream);
}

/// By the kernel of wgmma_direct.cuh.
template <bool Swapped>
void multiply_by_wgmma_direct(const char* function, const products::product& p,
                              matmul_context& context, cudaStream_t stream) {
  using tiles = direct_tiles<Swapped>;
  const std::int64_t rows = Swapped ? p.columns : p.rows;
  const std::int64_t columns = Swapped ? p.rows : p.columns;
  const int group = tile_group(ceil_div(rows, tiles::rows), tiles::rows, Swapped);
  const tile_schedule schedule = make_tile_schedule(
      rows, columns, p.inner, tiles::rows, tiles::columns, group, context.multiprocessors(), false);
  if constexpr (Swapped) {
    launch_wgmma<tiles>(function, wgmma_direct_kernel<tiles>, p, schedule,
                        second_boxes(p, 32, false), first_boxes(p, tiles::columns, true), context,
                        stream);
  } else {
    launch_wgmma<tiles>(function, wgmma_direct_kernel<tiles>, p, schedule,
                        first_boxes(p, tiles::rows, true), second_boxes(p, tiles::columns, true),
                        context, stream);
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
