/// @file
/// A linear layer, with C input and OC output channels:
///
///     out[r][o] = sum_c inp[r][c] * weight[o][c] + bias[o]
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/layer.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/column_sum.cuh>
#include <llmc/matmul_context.hpp>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class matmul_forward_variant {
  /// The best for this device, shape and precision: `tensor_core` for tf32x3; for tf32 what the
  /// plan says, see matmul_context; `cublaslt` for ieee.
  automatic,
  /// cuBLASLt, which adds the bias on the way out. `tf32x3` is done in IEEE FP32, which is as
  /// exact and half as fast.
  cublaslt,
  /// llmc's own kernels: wgmma on Hopper in code built for sm_90a, else mma.sync (sm_80 on), which
  /// takes any alignment. On cards without TF32 it is cuBLASLt in IEEE FP32. Has no `ieee`.
  tensor_core
};

inline constexpr std::array matmul_forward_variants{matmul_forward_variant::automatic,
                                                    matmul_forward_variant::cublaslt,
                                                    matmul_forward_variant::tensor_core};

constexpr const char* to_string(matmul_forward_variant variant) {
  switch (variant) {
    case matmul_forward_variant::automatic: return "automatic";
    case matmul_forward_variant::cublaslt: return "cublaslt";
    case matmul_forward_variant::tensor_core: return "tensor_core";
  }
  return "unknown";
}

/// Threads a block of the kernel that serves a layer without input channels; products are cut up by
/// who computes them.
template <matmul_forward_variant Variant>
inline constexpr int matmul_forward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN

/// A linear layer; see the top of this file for the formula.
///
/// @param[out]    out     (rows, OC), overwritten; must not alias an input
/// @param[in]     inp     (rows, C)
/// @param[in]     weight  (OC, C)
/// @param[in]     bias    (OC), or null for none
/// @param         arithmetic ieee, tf32 or tf32x3; where the card has no TF32 all three are ieee
/// @param[in,out] context of the current device; its workspace is used until the stream gets there
///
/// With C = 0 the output is the bias. Any alignment. Deterministic. Throws invalid_argument for
/// rows < 0, C < 0, OC < 1, a null array or a context of another device; unsupported for ieee by
/// `tensor_core`; cublas_error or cuda_error if the product fails.
template <matmul_forward_variant Variant = matmul_forward_variant::automatic,
          int BlockSize = matmul_forward_block_size<Variant>>
void matmul_forward(float* out, const float* inp, const float* weight, const float* bias,
                    matmul_shape shape, precision arithmetic, matmul_context& context,
                    cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "matmul_forward: BlockSize must be a multiple of 32 between 32 and 1024");
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

  constexpr products::engines engines = detail::matmul_engines(Variant);
  checks::require_engines(function, engines, arithmetic);
  products::epilogue then;
  then.bias = bias;
  detail::matmul_output(function, out, inp, weight, shape, then, arithmetic, engines, context,
                        stream);
}

/// A linear layer on a branch of a residual stream: out = residual + matmul_forward(inp), in one
/// pass. See there; `residual` is (rows, OC) and may be `out`.
template <matmul_forward_variant Variant = matmul_forward_variant::automatic,
          int BlockSize = matmul_forward_block_size<Variant>>
void matmul_residual_forward(float* out, const float* residual, const float* inp,
                             const float* weight, const float* bias, matmul_shape shape,
                             precision arithmetic, matmul_context& context, cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "matmul_residual_forward: BlockSize must be a multiple of 32 between 32 and 1024");
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
  constexpr products::engines engines = detail::matmul_engines(Variant);
  checks::require_engines(function, engines, arithmetic);
  products::epilogue then;
  then.bias = bias;
  then.residual = residual;
  detail::matmul_output(function, out, inp, weight, shape, then, arithmetic, engines, context,
                        stream);
}

/// Who computes matmul_forward of these arrays, and why; arrays are looked at for their alignment
/// only. `automatic` and `tensor_core` may answer differently once the context was tuned.
template <matmul_forward_variant Variant = matmul_forward_variant::automatic>
matmul_path matmul_forward_path(const float* out, const float* inp, const float* weight,
                                const float* bias, matmul_shape shape, precision arithmetic,
                                matmul_context& context) {
  constexpr const char* function = "llmc::matmul_forward_path";
  checks::require_shape(function, shape);
  constexpr products::engines engines = detail::matmul_engines(Variant);
  checks::require_engines(function, engines, arithmetic);
  products::product p = detail::output_product(const_cast<float*>(out), inp, weight, shape);
  p.then.bias = bias;
  p.arithmetic = arithmetic;
  return detail::path_of(p, engines, context);
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

/// dbias is column sums in two stages in all of them.
enum class matmul_backward_variant {
  /// The best for this device, shape and precision, as in matmul_forward_variant.
  automatic,
  /// dinp and dweight by cuBLASLt. `tf32x3` is done in IEEE FP32.
  cublaslt,
  /// dinp and dweight by llmc's own kernels, as in matmul_forward_variant. No weight or gradient is
  /// copied or transposed for it.
  tensor_core
};

inline constexpr std::array matmul_backward_variants{matmul_backward_variant::automatic,
                                                     matmul_backward_variant::cublaslt,
                                                     matmul_backward_variant::tensor_core};

constexpr const char* to_string(matmul_backward_variant variant) {
  switch (variant) {
    case matmul_backward_variant::automatic: return "automatic";
    case matmul_backward_variant::cublaslt: return "cublaslt";
    case matmul_backward_variant::tensor_core: return "tensor_core";
  }
  return "unknown";
}

/// Threads a block of the bias gradient; not yet measured.
template <matmul_backward_variant Variant>
inline constexpr int matmul_backward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN

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
/// @param[out]    workspace matmul_backward_workspace_bytes(shape) bytes, its contents are lost;
///                          may be null where dbias is
/// @param[in]     dout      (rows, OC)
/// @param[in]     inp       (rows, C); may be null where dweight is
/// @param[in]     weight    (OC, C); may be null where dinp is
/// @param         arithmetic of dinp and dweight; dbias is always a sum in IEEE FP32
/// @param[in,out] context   of the current device; its workspace is used until the stream
///                          gets there
///
/// No output may alias an input. Sums over no rows are 0. Any alignment. Deterministic. Throws
/// invalid_argument for rows < 0, C < 0, OC < 1, a null array that is needed or a context of
/// another device; unsupported for ieee by `tensor_core`; cublas_error or cuda_error if a product
/// or a launch fails.
template <matmul_backward_variant Variant = matmul_backward_variant::automatic,
          int BlockSize = matmul_backward_block_size<Variant>>
void matmul_backward(float* dinp, float* dweight, float* dbias, void* workspace, const float* dout,
                     const float* inp, const float* weight, matmul_shape shape,
                     precision arithmetic, accumulation mode, matmul_context& context,
                     cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "matmul_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::matmul_backward";
  checks::require_shape(function, shape);
  const bool has_products = shape.rows > 0 && shape.channels > 0;
  if (shape.rows > 0) checks::require_pointer(function, "dout", dout);
  if (has_products && dweight != nullptr) checks::require_pointer(function, "inp", inp);
  if (has_products && dinp != nullptr) checks::require_pointer(function, "weight", weight);

  constexpr products::engines engines = detail::matmul_engines(Variant);
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
    detail::matmul_bias_gradient<BlockSize>(function, dbias, workspace, dout, shape, mode, stream);
  }
}

LLMC_NAMESPACE_END
