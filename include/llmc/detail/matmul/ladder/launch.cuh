/// @file
/// Products by a rung of the ladder.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>
#include <string>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/epilogue.cuh>
#include <llmc/detail/matmul/kernel_presence.hpp>
#include <llmc/detail/matmul/ladder/plain.cuh>
#include <llmc/detail/matmul/ladder/problem.cuh>
#include <llmc/detail/matmul/ladder/register_tile.cuh>
#include <llmc/detail/matmul/ladder/rung.hpp>
#include <llmc/detail/matmul/ladder/shared_tile.cuh>
#include <llmc/detail/matmul/ladder/wmma.cuh>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/matmul_context.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

inline constexpr int most_threads = 1024;  ///< in a block of the kernels that take any block size

/// The side of the shared square that a block of this size fills.
constexpr int shared_tile_side(int block_size) {
  return block_size == 1024 ? 32 : 16;
}

template <int BlockSize>
void start_rung(const char* function, std::int64_t blocks, void (*kernel)(rung_problem),
                const products::product& p, cudaStream_t stream) {
  launch({function, blocks, BlockSize, 0, stream}, kernel, rung_problem_of(p));
}

/// The rungs that every product of a layer has.
template <auto Variant, int BlockSize, class Layouts>
void launch_common_rung(const char* function, const products::product& p, cudaStream_t stream) {
  using variant = decltype(Variant);
  if constexpr (Variant == variant::naive) {
    start_rung<BlockSize>(function, ceil_div(p.rows * p.columns, BlockSize),
                          naive_product_kernel<Layouts, most_threads>, p, stream);
  } else if constexpr (Variant == variant::shared_tile) {
    constexpr int side = shared_tile_side(BlockSize);
    start_rung<BlockSize>(function, tiles_of(p, side), shared_tile_kernel<Layouts, side>, p,
                          stream);
  } else if constexpr (Variant == variant::register_tile_2d) {
    using tile = register_tile_8x8;
    start_rung<BlockSize>(function, tiles_of(p, tile::side), register_tile_kernel<Layouts, tile>, p,
                          stream);
  } else {
    static_assert(Variant == variant::warp_tiled, "every rung has a kernel");
    start_rung<BlockSize>(function, tiles_of(p, device::register_product_tile::side),
                          register_product_kernel<Layouts, true>, p, stream);
  }
}

template <class Tile>
void launch_wmma(const char* function, const products::product& p, cudaStream_t stream) {
  static products::kernel_presence there;
  const auto kernel = wmma_product_kernel<Tile>;
  if (!there.on(current_device(function), reinterpret_cast<const void*>(kernel), Tile::threads)) {
    throw unsupported(std::string(function) +
                      ": the variant wmma needs TF32 tensor cores, which this build or card lacks");
  }
  start_rung<Tile::threads>(function, tiles_of(p, Tile::side), kernel, p, stream);
}

/// cuBLASLt, and then a pass that only adds the bias.
template <int BlockSize>
void multiply_then_add_bias(const char* function, const products::product& p,
                            matmul_context& context, cudaStream_t stream) {
  products::product plain = p;
  plain.then.bias = nullptr;
  context.multiply(function, plain, stream);
  if (p.then.bias == nullptr) return;
  late_epilogue rest{output_of(p), p.out.data, p.out.stride};
  rest.to.other = nullptr;  // the residual is in the product already
  launch_late_epilogue<BlockSize>(function, rest, p.rows, p.columns, stream);
}

/// Launches a rung for a product whose epilogue has at most a bias and a residual.
template <auto Variant, int BlockSize, bool OfGradients>
void launch_rung(const char* function, const products::product& p, matmul_context& context,
                 cudaStream_t stream) {
  using products::layout;
  if constexpr (OfGradients) {
    constexpr layout outer_first = layout::outer_first;
    if (p.inp1.order == outer_first) {
      using layouts = rung_layouts<outer_first, outer_first>;
      launch_common_rung<Variant, BlockSize, layouts>(function, p, stream);
    } else {
      using layouts = rung_layouts<layout::inner_first, outer_first>;
      launch_common_rung<Variant, BlockSize, layouts>(function, p, stream);
    }
  } else {
    using variant = decltype(Variant);
    using layouts = rung_layouts<layout::inner_first, layout::inner_first>;
    if constexpr (Variant == variant::coalesced) {
      start_rung<BlockSize>(function, ceil_div(p.rows * p.columns, BlockSize / device::warp_size),
                            coalesced_product_kernel<most_threads>, p, stream);
    } else if constexpr (Variant == variant::register_tile_1d) {
      using tile = register_tile_8x1;
      start_rung<BlockSize>(function, tiles_of(p, tile::side), register_tile_kernel<layouts, tile>,
                            p, stream);
    } else if constexpr (Variant == variant::double_buffered) {
      start_rung<BlockSize>(function, tiles_of(p, device::register_product_tile::side),
                            register_product_kernel<layouts, false>, p, stream);
    } else if constexpr (Variant == variant::wmma) {
      launch_wmma<wmma_tile>(function, p, stream);
    } else if constexpr (Variant == variant::cublaslt_separate_bias) {
      multiply_then_add_bias<BlockSize>(function, p, context, stream);
    } else {
      launch_common_rung<Variant, BlockSize, layouts>(function, p, stream);
    }
  }
}

/// Computes a product by a rung; its epilogue has at most a bias and a residual.
template <auto Variant, int BlockSize, bool OfGradients>
void multiply(const char* function, const products::product& p,
              products::rung<Variant, BlockSize, OfGradients>, matmul_context& context,
              cudaStream_t stream) {
  launch_rung<Variant, BlockSize, OfGradients>(function, p, context, stream);
}

}  // namespace detail
LLMC_NAMESPACE_END
