/// @file
/// A linear layer, with C input and OC output channels:
///
///     out[r][o] = sum_c inp[r][c] * weight[o][c] + bias[o]
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstdint>

#include <llmc/detail/bias_gradient.cuh>
#include <llmc/detail/checks.hpp>
#include <llmc/detail/column_sum.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/layer.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/matmul_context.hpp>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

/// The variants from `naive` to `wmma` are a ladder to learn from, see docs/layers/matmul.md. They
/// take any alignment. All of them but `wmma` compute in FP32 for every precision, which is at
/// least as exact, and make sums of more than 256 terms in parts.
enum class matmul_forward_variant {
  /// The best for this device, shape and precision: `cublaslt` for ieee, `tensor_core` for tf32x3;
  /// for tf32 the plan decides, see matmul_context.
  automatic,
  /// A thread owns a result and walks along its row of `inp` and its row of `weight`. A warp's
  /// loads of `weight` are C floats apart: 32 requests to the cache for 32 numbers.
  naive,
  /// A warp owns a result: its lanes read 32 neighbours of both rows, and add up their sums at the
  /// end. Wins over `naive` from a few dozen channels on. Every product still takes two loads.
  coalesced,
  /// A block owns 16 x 16 or 32 x 32 results (256 or 1024 threads) and passes tiles of both
  /// operands through shared memory: global memory is read 16 or 32 times less. Every product takes
  /// two loads from shared memory, which bound it.
  shared_tile,
  /// A thread owns 8 results of a column: a load of `weight` from shared memory serves all of them.
  register_tile_1d,
  /// A thread owns 8 x 8 results of a block's 128 x 128: 16 loads from shared memory for 64
  /// products. Blocks stop while a tile comes from global memory. Few results leave most of the GPU
  /// idle, here and below.
  register_tile_2d,
  /// The same sums with 16 bytes a load. The next tile is on its way while one is computed.
  double_buffered,
  /// The same, but a warp owns 64 x 32 results instead of 16 x 128, so that it reads 96 floats a
  /// step from shared memory and not 144. The last step without tensor cores.
  warp_tiled,
  /// The step to tensor cores: nvcuda::wmma, with tiles from shared memory as in `shared_tile`.
  /// Only for tf32, and only where card and code are of sm_80 or later.
  wmma,
  /// cuBLASLt, and then a pass that reads all results and adds the bias. Shows what `cublaslt`
  /// saves.
  cublaslt_separate_bias,
  /// cuBLASLt, which adds the bias on the way out. `tf32x3` is done in IEEE FP32, which is as
  /// exact and half as fast.
  cublaslt,
  /// llmc's own kernels: wgmma on Hopper in code built for sm_90a, else mma.sync (sm_80 on), which
  /// takes any alignment. Where there is neither, this is `cublaslt`. Has no `ieee`.
  tensor_core
};

inline constexpr std::array matmul_forward_variants{matmul_forward_variant::automatic,
                                                    matmul_forward_variant::naive,
                                                    matmul_forward_variant::coalesced,
                                                    matmul_forward_variant::shared_tile,
                                                    matmul_forward_variant::register_tile_1d,
                                                    matmul_forward_variant::register_tile_2d,
                                                    matmul_forward_variant::double_buffered,
                                                    matmul_forward_variant::warp_tiled,
                                                    matmul_forward_variant::wmma,
                                                    matmul_forward_variant::cublaslt_separate_bias,
                                                    matmul_forward_variant::cublaslt,
                                                    matmul_forward_variant::tensor_core};

constexpr const char* to_string(matmul_forward_variant variant) {
  switch (variant) {
    case matmul_forward_variant::automatic: return "automatic";
    case matmul_forward_variant::naive: return "naive";
    case matmul_forward_variant::coalesced: return "coalesced";
    case matmul_forward_variant::shared_tile: return "shared_tile";
    case matmul_forward_variant::register_tile_1d: return "register_tile_1d";
    case matmul_forward_variant::register_tile_2d: return "register_tile_2d";
    case matmul_forward_variant::double_buffered: return "double_buffered";
    case matmul_forward_variant::warp_tiled: return "warp_tiled";
    case matmul_forward_variant::wmma: return "wmma";
    case matmul_forward_variant::cublaslt_separate_bias: return "cublaslt_separate_bias";
    case matmul_forward_variant::cublaslt: return "cublaslt";
    case matmul_forward_variant::tensor_core: return "tensor_core";
  }
  return "unknown";
}

/// Threads a block. `naive` and `coalesced` take any number, `shared_tile` takes 256 and 1024, and
/// the other rungs only this one, for which their tiles are cut. For `cublaslt_separate_bias` it is
/// that of the pass for the bias. Where llmc's own tensor core kernels or cuBLASLt compute, only
/// the kernel for layers without input channels uses it.
///
/// On an H200 (2026-11-28; 2048 rows, 768 -> 3072) no other number is more than 1% faster for
/// `naive` and `coalesced`; `shared_tile` is 7% faster with 1024 than with 256.
template <matmul_forward_variant Variant>
inline constexpr int matmul_forward_block_size = 256;
template <>
inline constexpr int matmul_forward_block_size<matmul_forward_variant::shared_tile> = 1024;
template <>
inline constexpr int matmul_forward_block_size<matmul_forward_variant::register_tile_1d> = 512;
template <>
inline constexpr int matmul_forward_block_size<matmul_forward_variant::wmma> = 128;

inline constexpr auto& matmul_residual_forward_variants = matmul_forward_variants;
template <matmul_forward_variant Variant>
inline constexpr int matmul_residual_forward_block_size = matmul_forward_block_size<Variant>;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Whether a variant has a kernel for that block size.
constexpr bool takes_block_size(matmul_forward_variant variant, int block_size) {
  switch (variant) {
    case matmul_forward_variant::shared_tile: return block_size == 256 || block_size == 1024;
    case matmul_forward_variant::register_tile_1d: return block_size == 512;
    case matmul_forward_variant::register_tile_2d:
    case matmul_forward_variant::double_buffered:
    case matmul_forward_variant::warp_tiled: return block_size == 256;
    case matmul_forward_variant::wmma: return block_size == 128;
    case matmul_forward_variant::automatic:
    case matmul_forward_variant::naive:
    case matmul_forward_variant::coalesced:
    case matmul_forward_variant::cublaslt_separate_bias:
    case matmul_forward_variant::cublaslt:
    case matmul_forward_variant::tensor_core: break;
  }
  return is_block_size(block_size);
}

}  // namespace detail

/// A linear layer; see the top of this file for the formula.
///
/// @param[out]    out     (rows, OC), overwritten; must not alias an input
/// @param[in]     inp     (rows, C)
/// @param[in]     weight  (OC, C)
/// @param[in]     bias    (OC), or null for none
/// @param         arithmetic any precision; those that the card has no tensor cores for are done as
///                        ieee
/// @param[in,out] context of the current device; its workspace is in use until the stream has run
///                        this
///
/// With C = 0 the output is the bias. Any alignment. Deterministic. Throws invalid_argument for
/// rows < 0, C < 0, OC < 1, a null array or a context of another device; unsupported if
/// `tensor_core` is named for ieee, or `wmma` for another precision than tf32, in a build without
/// it or on a card without it; cublas_error or cuda_error if the product fails.
template <matmul_forward_variant Variant = matmul_forward_variant::automatic,
          int BlockSize = matmul_forward_block_size<Variant>>
void matmul_forward(float* out, const float* inp, const float* weight, const float* bias,
                    matmul_shape shape, precision arithmetic, matmul_context& context,
                    cudaStream_t stream) {
  static_assert(detail::takes_block_size(Variant, BlockSize),
                "matmul_forward: BlockSize must be a multiple of 32 between 32 and 1024, and for a "
                "variant that computes by tiles one of those, see matmul_forward_block_size");
  constexpr const char* function = "llmc::matmul_forward";
  checks::require_shape(function, shape);
  if (shape.rows == 0) return;
  checks::require_pointer(function, "out", out);
  if (shape.channels == 0) {
    detail::fill_rows<BlockSize>(function, out, bias, shape.rows, shape.out_channels, stream);
    return;
  }
  checks::require_pointer(function, "inp", inp);
  checks::require_pointer(function, "weight", weight);

  constexpr auto engines = detail::engines_or_rung<Variant, BlockSize, false>();
  checks::require_engines(function, engines, arithmetic);
  products::epilogue then;
  then.bias = bias;
  detail::matmul_output(function, out, inp, weight, shape, then, arithmetic, engines, context,
                        stream);
}

/// A linear layer on a branch of a residual stream: out = residual + matmul_forward(inp), in one
/// pass. Variants and contract are those of matmul_forward; `residual` is (rows, OC) and may be
/// `out`.
template <matmul_forward_variant Variant = matmul_forward_variant::automatic,
          int BlockSize = matmul_residual_forward_block_size<Variant>>
void matmul_residual_forward(float* out, const float* residual, const float* inp,
                             const float* weight, const float* bias, matmul_shape shape,
                             precision arithmetic, matmul_context& context, cudaStream_t stream) {
  static_assert(detail::takes_block_size(Variant, BlockSize),
                "matmul_residual_forward: BlockSize must be one that matmul_forward takes");
  constexpr const char* function = "llmc::matmul_residual_forward";
  checks::require_shape(function, shape);
  if (shape.rows == 0) return;
  checks::require_pointer(function, "out", out);
  checks::require_pointer(function, "residual", residual);
  if (shape.channels == 0) {
    detail::fill_rows<BlockSize>(function, out, bias, shape.rows, shape.out_channels, stream,
                                 residual);
    return;
  }
  checks::require_pointer(function, "inp", inp);
  checks::require_pointer(function, "weight", weight);
  constexpr auto engines = detail::engines_or_rung<Variant, BlockSize, false>();
  checks::require_engines(function, engines, arithmetic);
  products::epilogue then;
  then.bias = bias;
  then.residual = residual;
  detail::matmul_output(function, out, inp, weight, shape, then, arithmetic, engines, context,
                        stream);
}

/// Who computes matmul_forward of these arrays, and why. Only the alignment of the arrays counts.
/// The answer for `automatic` and `tensor_core` may change when the context is tuned.
template <matmul_forward_variant Variant = matmul_forward_variant::automatic>
matmul_path matmul_forward_path(const float* out, const float* inp, const float* weight,
                                const float* bias, matmul_shape shape, precision arithmetic,
                                matmul_context& context) {
  constexpr const char* function = "llmc::matmul_forward_path";
  checks::require_shape(function, shape);
  constexpr auto engines =
      detail::engines_or_rung<Variant, matmul_forward_block_size<Variant>, false>();
  checks::require_engines(function, engines, arithmetic);
  if constexpr (products::is_rung<Variant>) {
    return {to_string(Variant), "it was asked for"};
  } else {
    products::product p = detail::output_product(const_cast<float*>(out), inp, weight, shape);
    p.then.bias = bias;
    p.arithmetic = arithmetic;
    return detail::path_of(function, p, engines, context);
  }
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

/// All of them compute dbias as column sums in two stages; matmul_bias.cuh has other ways. The
/// variants from `naive` to `warp_tiled` are rungs of matmul_forward's ladder. Their kernels are
/// the same and read the operands as they lie: no weight or gradient is copied or transposed. They
/// compute in FP32 for every precision. The sums of dweight are over all rows and are not shared
/// out among blocks, so a small weight leaves most of the GPU idle.
enum class matmul_backward_variant {
  /// The best for this device, shape and precision, as in matmul_forward_variant.
  automatic,
  /// A thread owns a result. Unlike forward, lanes read neighbours of the second operand.
  naive,
  /// Tiles of 16 x 16 or 32 x 32 results (256 or 1024 threads) and operands in shared memory.
  shared_tile,
  /// 128 x 128 results a block, 8 x 8 a thread.
  register_tile_2d,
  /// The same with 16 bytes a load, the next tile on its way, and 64 x 32 results a warp.
  warp_tiled,
  /// dinp and dweight by cuBLASLt. `tf32x3` is done in IEEE FP32.
  cublaslt,
  /// dinp and dweight by llmc's own kernels, as in matmul_forward_variant. They copy or transpose
  /// no weight or gradient either.
  tensor_core
};

inline constexpr std::array matmul_backward_variants{
    matmul_backward_variant::automatic,   matmul_backward_variant::naive,
    matmul_backward_variant::shared_tile, matmul_backward_variant::register_tile_2d,
    matmul_backward_variant::warp_tiled,  matmul_backward_variant::cublaslt,
    matmul_backward_variant::tensor_core};

constexpr const char* to_string(matmul_backward_variant variant) {
  switch (variant) {
    case matmul_backward_variant::automatic: return "automatic";
    case matmul_backward_variant::naive: return "naive";
    case matmul_backward_variant::shared_tile: return "shared_tile";
    case matmul_backward_variant::register_tile_2d: return "register_tile_2d";
    case matmul_backward_variant::warp_tiled: return "warp_tiled";
    case matmul_backward_variant::cublaslt: return "cublaslt";
    case matmul_backward_variant::tensor_core: return "tensor_core";
  }
  return "unknown";
}

/// Threads a block, of the rungs and of the bias gradient. `shared_tile` takes 256 and 1024,
/// `register_tile_2d` and `warp_tiled` take 256. On an H200, measured as matmul_forward_block_size
/// was, no other number is more than 1% faster for `naive` and the bias gradient.
template <matmul_backward_variant Variant>
inline constexpr int matmul_backward_block_size = 256;
template <>
inline constexpr int matmul_backward_block_size<matmul_backward_variant::shared_tile> = 1024;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Whether a variant has a kernel for that block size.
constexpr bool takes_block_size(matmul_backward_variant variant, int block_size) {
  switch (variant) {
    case matmul_backward_variant::shared_tile: return block_size == 256 || block_size == 1024;
    case matmul_backward_variant::register_tile_2d:
    case matmul_backward_variant::warp_tiled: return block_size == 256;
    case matmul_backward_variant::automatic:
    case matmul_backward_variant::naive:
    case matmul_backward_variant::cublaslt:
    case matmul_backward_variant::tensor_core: break;
  }
  return is_block_size(block_size);
}

}  // namespace detail

/// Bytes of scratch that matmul_backward needs for this shape.
inline std::size_t matmul_backward_workspace_bytes(matmul_shape shape) {
  constexpr const char* function = "llmc::matmul_backward_workspace_bytes";
  checks::require_shape(function, shape);
  return detail::column_sum_workspace_bytes(function, {shape.rows, shape.out_channels}, 1);
}

/// The gradients of matmul_forward:
///
///     dinp[r][c]    = sum_o dout[r][o] * weight[o][c]
///     dweight[o][c] = sum_r dout[r][o] * inp[r][c]
///     dbias[o]      = sum_r dout[r][o]
///
/// @param[out]    dinp      (rows, C), overwritten whatever `mode` says; null: not computed
/// @param[in,out] dweight   (OC, C), overwritten or added to as `mode` says; null: not computed
/// @param[in,out] dbias     (OC), likewise
/// @param[out]    scratch   matmul_backward_workspace_bytes(shape) bytes, aligned to 16; its
///                          contents are lost; may be null where dbias is
/// @param[in]     dout      (rows, OC)
/// @param[in]     inp       (rows, C); may be null where dweight is
/// @param[in]     weight    (OC, C); may be null where dinp is
/// @param         arithmetic of dinp and dweight: any precision; those that the card has no tensor
///                          cores for are done as ieee. dbias is always a sum in IEEE FP32
/// @param[in,out] context   of the current device; its workspace is in use until the stream has run
///                          this
///
/// No output may alias an input. Sums over no rows are 0. Any alignment. Deterministic. Throws
/// invalid_argument for rows < 0, C < 0, OC < 1, a null array that is needed, a context of another
/// device or, where dbias is computed, a scratch that is null, too small or not aligned;
/// unsupported if `tensor_core` is named for ieee; cublas_error or cuda_error if a product or a
/// launch fails.
template <matmul_backward_variant Variant = matmul_backward_variant::automatic,
          int BlockSize = matmul_backward_block_size<Variant>>
void matmul_backward(float* dinp, float* dweight, float* dbias, workspace scratch,
                     const float* dout, const float* inp, const float* weight, matmul_shape shape,
                     precision arithmetic, accumulation mode, matmul_context& context,
                     cudaStream_t stream) {
  static_assert(
      detail::takes_block_size(Variant, BlockSize),
      "matmul_backward: BlockSize must be a multiple of 32 between 32 and 1024, and for a "
      "variant that computes by tiles one of those, see matmul_backward_block_size");
  constexpr const char* function = "llmc::matmul_backward";
  checks::require_shape(function, shape);
  const bool has_products = shape.rows > 0 && shape.channels > 0;
  if (shape.rows > 0) checks::require_pointer(function, "dout", dout);
  if (has_products && dweight != nullptr) checks::require_pointer(function, "inp", inp);
  if (has_products && dinp != nullptr) checks::require_pointer(function, "weight", weight);
  if (dbias != nullptr) {
    checks::require_workspace(function, scratch, matmul_backward_workspace_bytes(shape));
  }

  constexpr auto engines = detail::engines_or_rung<Variant, BlockSize, true>();
  checks::require_engines(function, engines, arithmetic);

  if (dinp != nullptr && has_products) {
    detail::matmul_input_gradient(function, dinp, dout, weight, shape, {}, arithmetic, engines,
                                  context, stream);
  }
  if (dweight != nullptr && shape.channels > 0) {
    detail::matmul_weight_gradient<BlockSize>(function, dweight, dout, inp, shape, arithmetic, mode,
                                              engines, context, stream);
  }
  if (dbias != nullptr) {
    detail::sum_bias_gradient<BlockSize>(function, dbias, scratch.data, dout,
                                         {shape.rows, shape.out_channels}, mode, stream);
  }
}

LLMC_NAMESPACE_END
