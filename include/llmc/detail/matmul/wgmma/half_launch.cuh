/// @file
/// Launching the kernel for matrices in halves.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/context/resources.hpp>
#include <llmc/detail/matmul/kernel_presence.hpp>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/matmul/wgmma/half_kernel.cuh>
#include <llmc/detail/matmul/wgmma/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/split_matrix.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Whether this file has the kernel for the current device, number `device`.
template <class Tiles>
bool wgmma_half_is_there(int device) {
  static products::kernel_presence there;
  return there.on(device, reinterpret_cast<const void*>(&wgmma_half_kernel<Tiles>), Tiles::threads);
}

/// Both planes as one matrix, in boxes of 64 neighbours x `outers` lines, or of 64 x 64 where the
/// lines are k.
inline products::tensor_box plane_boxes(const split_matrix& matrix, bool inner_first, int outers) {
  const split_layout layout(matrix.shape);
  const auto columns = static_cast<std::uint64_t>(layout.padded_channels());
  return {matrix.data,
          columns,
          2 * static_cast<std::uint64_t>(layout.padded_rows()),
          columns * sizeof(std::uint16_t),
          static_cast<std::uint32_t>(split_layout::side),
          static_cast<std::uint32_t>(inner_first ? outers : split_layout::side),
          products::box_element::fp16};
}

/// Computes a product whose operands are `first` and `second` in halves; those of `p` are not
/// looked at. With `cuts` the last tiles are cut among the blocks.
template <class Tiles>
void multiply_by_wgmma_half(const char* function, const products::product& p,
                            const split_matrix& first, const split_matrix& second, bool cuts,
                            products::resources& on, cudaStream_t stream) {
  const int group = tile_group(ceil_div(p.rows, Tiles::rows), Tiles::rows, !Tiles::inner_first_1);
  const tile_schedule schedule = make_tile_schedule(
      p.rows, p.columns, ceil_div(p.inner, Tiles::chunk), Tiles::rows, Tiles::columns, group,
      most_blocks<Tiles::rows * Tiles::columns>(on), cuts);
  const products::epilogue& e = p.then;
  const bool wide =
      p.columns % 4 == 0 && is_16_byte_accessible(p.out.stride, p.out.data, e.bias, e.before_gelu,
                                                  e.gelu_inp, e.residual);
  const half_problem problem{schedule,
                             static_cast<std::int32_t>(p.rows),
                             static_cast<std::int32_t>(p.columns),
                             wide,
                             output_of(p),
                             split_planes(first),
                             split_planes(second),
                             static_cast<float*>(on.workspace()),
                             on.flags()};
  launch({function, schedule.blocks, Tiles::threads, Tiles::shared_bytes, stream},
         wgmma_half_kernel<Tiles>, problem,
         on.tensor_map(function, plane_boxes(first, Tiles::inner_first_1, Tiles::rows)),
         on.tensor_map(function, plane_boxes(second, Tiles::inner_first_2, Tiles::columns)));
}

}  // namespace detail
LLMC_NAMESPACE_END
