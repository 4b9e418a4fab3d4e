/// @file
/// The gradient of a linear layer's bias by itself:
///
///     dbias[o] = sum_r dout[r][o]
///
/// matmul_backward computes it by `two_stage`. Where a product makes `dout`, it can sum the columns
/// on the way out, and nothing is read for them: gelu_matmul_backward in matmul_gelu.cuh does that.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

#include <llmc/detail/bias_gradient.cuh>
#include <llmc/detail/checks.hpp>
#include <llmc/detail/column_sum.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/ladder/bias.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/row/reduce.cuh>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

enum class matmul_bias_backward_variant {
  /// The best for this device and shape: `two_stage`.
  automatic,
  /// A block owns a column and its threads share the rows. Every thread reads another line of
  /// memory and uses 4 of every 32 bytes that come. Wins nowhere.
  column_per_block,
  /// A block owns 32 columns, one for each lane, and its warps share the rows: every load is of 32
  /// neighbours. There are only OC / 32 blocks, so it wins with few rows or very many columns.
  warp_columns,
  /// A block sums a run of rows, 16 bytes a load; a second kernel adds up these partial sums in
  /// order. Fills the GPU whatever the shape.
  two_stage
};

inline constexpr std::array matmul_bias_backward_variants{
    matmul_bias_backward_variant::automatic, matmul_bias_backward_variant::column_per_block,
    matmul_bias_backward_variant::warp_columns, matmul_bias_backward_variant::two_stage};

constexpr const char* to_string(matmul_bias_backward_variant variant) {
  switch (variant) {
    case matmul_bias_backward_variant::automatic: return "automatic";
    case matmul_bias_backward_variant::column_per_block: return "column_per_block";
    case matmul_bias_backward_variant::warp_columns: return "warp_columns";
    case matmul_bias_backward_variant::two_stage: return "two_stage";
  }
  return "unknown";
}

/// Threads a block. On an H200 (2026-11-28; 2048 rows) no other number is more than 1% faster for
/// `two_stage`.
template <matmul_bias_backward_variant Variant>
inline constexpr int matmul_bias_backward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN

/// Bytes of scratch that are enough for this shape; only `automatic` and `two_stage` need them.
inline std::size_t matmul_bias_backward_workspace_bytes(row_shape shape) {
  constexpr const char* function = "llmc::matmul_bias_backward_workspace_bytes";
  checks::require_shape(function, shape);
  return detail::column_sum_workspace_bytes(function, shape, 1);
}

/// Sums the columns of `dout`; see the top of this file for the formula.
///
/// @param[in,out] dbias     (OC), overwritten or added to as `mode` says; must not alias `dout`
/// @param[out]    scratch   matmul_bias_backward_workspace_bytes(shape) bytes, aligned to 16; its
///                          contents are lost; may be null for the variants that need none
/// @param[in]     dout      (rows, OC); may be null where there are no rows
/// @param         shape     {rows, OC}
///
/// Sums over no rows are 0. Any alignment. Deterministic. Throws invalid_argument for rows < 0,
/// OC < 1, a null array or, where it is needed, a scratch that is null, too small or not aligned;
/// cuda_error if a launch fails.
template <matmul_bias_backward_variant Variant = matmul_bias_backward_variant::automatic,
          int BlockSize = matmul_bias_backward_block_size<Variant>>
void matmul_bias_backward(float* dbias, workspace scratch, const float* dout, row_shape shape,
                          accumulation mode, cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "matmul_bias_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::matmul_bias_backward";
  checks::require_shape(function, shape);
  checks::require_pointer(function, "dbias", dbias);
  if (shape.rows > 0) checks::require_pointer(function, "dout", dout);

  constexpr int most_threads = 1024;
  if constexpr (Variant == matmul_bias_backward_variant::column_per_block) {
    detail::launch({function, shape.channels, BlockSize, 0, stream},
                   detail::bias_column_per_block_kernel<most_threads>, dbias, dout, shape, mode);
  } else if constexpr (Variant == matmul_bias_backward_variant::warp_columns) {
    const std::int64_t blocks = detail::ceil_div(shape.channels, device::warp_size);
    detail::launch({function, blocks, BlockSize, 0, stream},
                   detail::bias_warp_columns_kernel<most_threads>, dbias, dout, shape, mode);
  } else {
    checks::require_workspace(function, scratch, matmul_bias_backward_workspace_bytes(shape));
    detail::sum_bias_gradient<BlockSize>(function, dbias, scratch.data, dout, shape, mode, stream);
  }
}

LLMC_NAMESPACE_END
