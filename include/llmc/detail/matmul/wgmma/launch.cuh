/// @file
/// Launching the wgmma kernels: which products they take, and how bulk copies see the operands.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/context/resources.hpp>
#include <llmc/detail/matmul/kernel_presence.hpp>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/matmul/wgmma/direct_kernel.cuh>
#include <llmc/detail/matmul/wgmma/split_kernel.cuh>
#include <llmc/detail/namespace.hpp>

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
  if (products::has_odd_layouts(p)) return "neither operand lies as in a linear layer";
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

/// An operand in boxes of 32 neighbours x `box_rows` lines.
inline products::tensor_box boxes_of(const products::operand& m, std::int64_t outers,
                                     std::int64_t inner, std::uint32_t box_rows,
                                     products::box_element element) {
  const bool inner_first = m.order == products::layout::inner_first;
  return {m.data,
          static_cast<std::uint64_t>(inner_first ? inner : outers),
          static_cast<std::uint64_t>(inner_first ? outers : inner),
          static_cast<std::uint64_t>(m.stride) * sizeof(float),
          tile_chunk,
          box_rows,
          element};
}
inline products::tensor_box first_boxes(const products::product& p, std::uint32_t box_rows,
                                        products::box_element element) {
  return boxes_of(p.inp1, p.rows, p.inner, box_rows, element);
}
inline products::tensor_box second_boxes(const products::product& p, std::uint32_t box_rows,
                                         products::box_element element) {
  return boxes_of(p.inp2, p.columns, p.inner, box_rows, element);
}

/// How many rows of tiles share their columns' tiles in the L2 cache. A weight's gradient sums over
/// the rows of both operands (`long_sum`). Its operands are long, so blocks that run together
/// should meet at the same k rather than in the same tiles: they go down all rows first, if there
/// are not too many.
inline int tile_group(std::int64_t row_tiles, int tile_rows, bool long_sum) {
  constexpr int cached_rows = 2048;
  constexpr int most_row_tiles = 24;
  if (long_sum && row_tiles <= most_row_tiles) return static_cast<int>(row_tiles);
  return cached_rows / tile_rows;
}

inline wgmma_problem wgmma_problem_of(const products::product& p, const tile_schedule& schedule,
                                      products::resources& on) {
  return {schedule,
          static_cast<std::int32_t>(p.rows),
          static_cast<std::int32_t>(p.columns),
          static_cast<std::int32_t>(p.inner),
          output_of(p),
          p.inp1,
          p.inp2,
          static_cast<float*>(on.workspace()),
          on.flags()};
}

/// Launches a kernel on persistent blocks, one a multiprocessor.
template <class Tiles, class Kernel>
void launch_wgmma(const char* function, Kernel kernel, const products::product& p,
                  const tile_schedule& schedule, const products::tensor_box& first,
                  const products::tensor_box& second, products::resources& on,
                  cudaStream_t stream) {
  launch({function, schedule.blocks, Tiles::threads, Tiles::shared_bytes, stream}, kernel,
         wgmma_problem_of(p, schedule, on), on.tensor_map(function, first),
         on.tensor_map(function, second));
}

/// How many blocks tiles may be cut among: as many as the context has workspace and flags for, and
/// at most one a multiprocessor.
template <int TileSums>
int most_blocks(const products::resources& on) {
  constexpr std::size_t block_bytes = sizeof(float) * TileSums;
  constexpr int room = static_cast<int>(products::resources::workspace_bytes / block_bytes);
  constexpr int flags = products::resources::flag_count / 2;
  const int wanted = on.multiprocessors();
  return wanted < room && wanted < flags ? wanted : room < flags ? room : flags;
}

/// Whether this file has the splitting kernel for the current device, number `device`.
template <class Tiles>
bool wgmma_split_is_there(int device) {
  static products::kernel_presence there;
  return there.on(device, reinterpret_cast<const void*>(&wgmma_split_kernel<Tiles>),
                  Tiles::threads);
}
/// The same for the direct kernel.
template <class Tiles>
bool wgmma_direct_is_there(int device) {
  static products::kernel_presence there;
  return there.on(device, reinterpret_cast<const void*>(&wgmma_direct_kernel<Tiles>),
                  Tiles::threads);
}

/// Computes a product by the kernel of split_kernel.cuh. With `Cuts` the last tiles are cut among
/// the blocks.
template <class Tiles, bool Cuts>
void multiply_by_wgmma_split(const char* function, const products::product& p,
                             products::resources& on, cudaStream_t stream) {
  const int group = tile_group(ceil_div(p.rows, Tiles::rows), Tiles::rows, !Tiles::inner_first_1);
  const tile_schedule schedule = make_tile_schedule(
      p.rows, p.columns, ceil_div(p.inner, tile_chunk), Tiles::rows, Tiles::columns, group,
      most_blocks<Tiles::rows * Tiles::columns>(on), Cuts);
  launch_wgmma<Tiles>(function, wgmma_split_kernel<Tiles>, p, schedule,
                      first_boxes(p, 32, products::box_element::fp32),
                      second_boxes(p, 32, products::box_element::fp32), on, stream);
}

/// Computes a product by the kernel of direct_kernel.cuh.
template <products::layout Second>
void multiply_by_wgmma_direct(const char* function, const products::product& p,
                              products::resources& on, cudaStream_t stream) {
  using tiles = direct_tiles<Second>;
  constexpr bool swapped = tiles::swapped;
  const std::int64_t rows = swapped ? p.columns : p.rows;
  const std::int64_t columns = swapped ? p.rows : p.columns;
  const int group = tile_group(ceil_div(rows, tiles::rows), tiles::rows, swapped);
  const tile_schedule schedule =
      make_tile_schedule(rows, columns, ceil_div(p.inner, tile_chunk), tiles::rows, tiles::columns,
                         group, on.multiprocessors(), false);
  if constexpr (swapped) {
    launch_wgmma<tiles>(function, wgmma_direct_kernel<tiles>, p, schedule,
                        second_boxes(p, 32, products::box_element::fp32),
                        first_boxes(p, tiles::columns, products::box_element::tf32), on, stream);
  } else {
    launch_wgmma<tiles>(function, wgmma_direct_kernel<tiles>, p, schedule,
                        first_boxes(p, tiles::rows, products::box_element::tf32),
                        second_boxes(p, tiles::columns, products::box_element::tf32), on, stream);
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
