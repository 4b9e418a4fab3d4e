/// @file
/// The rungs whose tiles device/register_product.cuh computes: vectorised and double-buffered, and
/// then shared out by warps.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/matmul/ladder/problem.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/register_product.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// A block owns a tile; two blocks share a multiprocessor, so that one computes while the other
/// waits at its barrier.
template <class Layout, bool ByWarps>
__global__ void __launch_bounds__(device::register_product_tile::threads, 2)
    register_product_kernel(rung_problem p) {
  using block_product =
      device::register_product<Layout::inner_first_1, Layout::inner_first_2, ByWarps>;
  __shared__ typename block_product::storage memory;
  for_each_tile(p, block_product::side, [&](std::int64_t first_row, std::int64_t first_column) {
    block_product tile(memory);
    tile.multiply(p.first, p.second, first_row, first_column, p.inner);
    tile.for_each_quad([&](int row, int column, device::pack<4> sums) {
      put_quad(p, first_row + row, first_column + column, sums);
    });
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
