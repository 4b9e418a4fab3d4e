/// @file
/// The scores of causal attention before scale and softmax, for queries and keys by head (B, NH, T,
/// HS), as permute_heads leaves them:
///
///     out[t][s] = sum_d q[t][d] * k[s][d]    for s <= t
///     out[t][s] = 0                          for s > t
///
/// `attention_forward` keeps no scores and is much faster than products around a softmax: use this
/// layer where scores are wanted.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstdint>

#include <llmc/detail/attention/scores.hpp>
#include <llmc/detail/causal_product.cuh>
#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/matmul_context.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

enum class causal_product_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread sums one score from global memory. Wins nowhere.
  naive,
  /// Tiles of 32 x 32 scores, whose features come through shared memory; a thread has one score.
  /// Tiles above the diagonal are not computed. Takes blocks of 1024 threads only.
  shared_tiles,
  /// cuBLASLt computes the whole square of every head, and a kernel clears what is above the
  /// diagonal. Twice the work, but by the best kernels there are: wins for large heads where the
  /// product, and not the writing of scores, takes the time.
  dense,
  /// Tiles of 128 x 128 scores; a thread sums 8 x 8 of them in registers. Tiles above the diagonal
  /// are not computed. Wins for heads of common size. Takes blocks of 256 threads only.
  register_tiles
};

inline constexpr std::array causal_product_variants{
    causal_product_variant::automatic, causal_product_variant::naive,
    causal_product_variant::shared_tiles, causal_product_variant::dense,
    causal_product_variant::register_tiles};

constexpr const char* to_string(causal_product_variant variant) {
  switch (variant) {
    case causal_product_variant::automatic: return "automatic";
    case causal_product_variant::naive: return "naive";
    case causal_product_variant::shared_tiles: return "shared_tiles";
    case causal_product_variant::dense: return "dense";
    case causal_product_variant::register_tiles: return "register_tiles";
  }
  return "unknown";
}

/// Threads a block. The tiles fix it for `shared_tiles` and `register_tiles`. On an H200 `naive` is
/// equally fast with any number. For `dense` it is that of the kernel that clears, which has not
/// been measured.
template <causal_product_variant Variant>
inline constexpr int causal_product_block_size =
    Variant == causal_product_variant::shared_tiles ? 1024 : 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

inline constexpr int shared_tile_size = 32;

inline void launch_dense_causal_product(const char* function, const score_matrices& a,
                                        attention_shape shape, int block_size,
                                        matmul_context& context, cudaStream_t stream) {
  const std::int64_t T = shape.sequence, HS = shape.head_size;
  constexpr auto order = products::layout::inner_first;
  products::product p{
      {a.out, T, T * T}, {a.q, HS, order, T * HS}, {a.k, HS, order, T * HS}, T, T, HS};
  p.batch = shape.batch * shape.heads;
  context.multiply(function, p, stream);
  launch({function, p.batch * T, block_size, 0, stream}, clear_above_diagonal_kernel<1024>, a.out,
         p.batch * T, T);
}

}  // namespace detail

/// The scores, in IEEE FP32; see the top of this file for the formula. An infinity or NaN in a
/// vector reaches only the scores that are made from that vector, and none above the diagonal.
///
/// @param[out]    out     (B, NH, T, T), overwritten, with 0 above the diagonal; must not alias an
///                        input
/// @param[in]     q       (B, NH, T, HS)
/// @param[in]     k       (B, NH, T, HS)
/// @param[in,out] context of the current device; where `dense` runs, the context's workspace is in
///                        use until the stream has run this
///
/// Any alignment. Deterministic. Throws invalid_argument for a negative extent, NH < 1, HS < 1, a
/// null array or, where `dense` runs, a context of another device; cublas_error or cuda_error if
/// the product or a launch fails.
template <causal_product_variant Variant = causal_product_variant::automatic,
          int BlockSize = causal_product_block_size<Variant>>
void causal_product(float* out, const float* q, const float* k, attention_shape shape,
                    matmul_context& context, cudaStream_t stream) {
  using variant = causal_product_variant;
  static_assert(detail::is_block_size(BlockSize),
                "causal_product: BlockSize must be a multiple of 32 between 32 and 1024");
  static_assert(Variant != variant::shared_tiles || BlockSize == 1024,
                "causal_product: the variant shared_tiles takes a BlockSize of 1024");
  static_assert((Variant != variant::automatic && Variant != variant::register_tiles) ||
                    BlockSize == detail::score_tile_threads,
                "causal_product: the variant register_tiles takes a BlockSize of 256");
  constexpr const char* function = "llmc::causal_product";
  const std::int64_t rows = checks::require_scores(function, shape);
  if (rows == 0) return;
  checks::require_pointer(function, "out", out);
  checks::require_pointer(function, "q", q);
  checks::require_pointer(function, "k", k);

  const detail::score_matrices arrays{out, q, k};
  const std::int64_t T = shape.sequence;
  const auto tiles = [&](std::int64_t size) {
    const std::int64_t in_row = detail::ceil_div(T, size);
    return shape.batch * shape.heads * in_row * in_row;
  };
  if constexpr (Variant == variant::naive) {
    detail::launch({function, detail::ceil_div(rows * T, BlockSize), BlockSize, 0, stream},
                   detail::causal_product_naive_kernel<1024>, arrays, shape);
  } else if constexpr (Variant == variant::shared_tiles) {
    detail::launch({function, tiles(detail::shared_tile_size), BlockSize, 0, stream},
                   detail::causal_product_shared_kernel<detail::shared_tile_size>, arrays, shape);
  } else if constexpr (Variant == variant::dense) {
    detail::launch_dense_causal_product(function, arrays, shape, BlockSize, context, stream);
  } else {
    const bool wide = detail::is_16_byte_accessible(T, out) &&
                      detail::is_16_byte_accessible(shape.head_size, q, k);
    detail::with_access_width(wide, [&](auto width) {
      detail::launch({function, tiles(detail::score_tile_size), BlockSize, 0, stream},
                     detail::causal_product_register_kernel<width()>, arrays, shape);
    });
  }
}

LLMC_NAMESPACE_END
