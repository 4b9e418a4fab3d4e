/// @file
/// A linear layer next to a GELU, in one pass where the product's kernel can do both:
///
///     before_gelu = inp weight^T + bias,  out = gelu(before_gelu)
///
/// and the gradient through a linear layer and the GELU before it:
///
///     dgelu_inp = (dout weight) * gelu'(gelu_inp)
///
/// See matmul.cuh and gelu.cuh for the two by themselves.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstddef>
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

enum class matmul_gelu_forward_variant {
  /// The best for this device, shape and precision, as in matmul_forward_variant.
  automatic,
  /// cuBLASLt, and then the GELU in a pass of its own. `tf32x3` is done in IEEE FP32.
  cublaslt,
  /// llmc's own kernels, which apply the GELU on the way out. Has no `ieee`. Where build or card
  /// has none of them (see matmul_forward_variant) this is `cublaslt`.
  tensor_core
};

inline constexpr std::array matmul_gelu_forward_variants{matmul_gelu_forward_variant::automatic,
                                                         matmul_gelu_forward_variant::cublaslt,
                                                         matmul_gelu_forward_variant::tensor_core};

constexpr const char* to_string(matmul_gelu_forward_variant variant) {
  switch (variant) {
    case matmul_gelu_forward_variant::automatic: return "automatic";
    case matmul_gelu_forward_variant::cublaslt: return "cublaslt";
    case matmul_gelu_forward_variant::tensor_core: return "tensor_core";
  }
  return "unknown";
}

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN

/// A linear layer and its GELU; see the top of this file for the formula.
///
/// @param[out]    out         (rows, OC), overwritten
/// @param[out]    before_gelu (rows, OC), overwritten with the input of the GELU, for backward
/// @param[in]     inp         (rows, C)
/// @param[in]     weight      (OC, C)
/// @param[in]     bias        (OC), or null for none
/// @param         arithmetic  of the product, as in matmul_forward; the GELU is always FP32
/// @param[in,out] context     of the current device; its workspace is in use until the stream has
///                            run this
///
/// No output may alias another array. Any alignment. Deterministic. Throws invalid_argument for
/// rows < 0, C < 1, OC < 1, a null array or a context of another device; unsupported if
/// `tensor_core` is named for ieee; cublas_error or cuda_error if a launch fails.
template <matmul_gelu_forward_variant Variant = matmul_gelu_forward_variant::automatic>
void matmul_gelu_forward(float* out, float* before_gelu, const float* inp, const float* weight,
                         const float* bias, matmul_shape shape, precision arithmetic,
                         matmul_context& context, cudaStream_t stream) {
  constexpr const char* function = "llmc::matmul_gelu_forward";
  checks::require_shape(function, shape);
  checks::require_at_least(function, "channels", shape.channels, 1);
  if (shape.rows == 0) return;
  checks::require_pointer(function, "out", out);
  checks::require_pointer(function, "before_gelu", before_gelu);
  checks::require_pointer(function, "inp", inp);
  checks::require_pointer(function, "weight", weight);
  constexpr auto engines = detail::matmul_engines<Variant>();
  checks::require_engines(function, engines, arithmetic);

  products::epilogue then;
  then.bias = bias;
  then.before_gelu = before_gelu;
  detail::matmul_output(function, out, inp, weight, shape, then, arithmetic, engines, context,
                        stream);
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class gelu_matmul_backward_variant {
  /// The best for this device, shape and precision, as in matmul_backward_variant.
  automatic,
  /// The products by cuBLASLt; the GELU's gradient and its column sums in a pass of their own.
  /// `tf32x3` is done in IEEE FP32.
  cublaslt,
  /// llmc's own kernels, which do all that on the way out. Has no `ieee`. Where build or card has
  /// none of them (see matmul_forward_variant) this is `cublaslt`.
  tensor_core
};

inline constexpr std::array gelu_matmul_backward_variants{
    gelu_matmul_backward_variant::automatic, gelu_matmul_backward_variant::cublaslt,
    gelu_matmul_backward_variant::tensor_core};

constexpr const char* to_string(gelu_matmul_backward_variant variant) {
  switch (variant) {
    case gelu_matmul_backward_variant::automatic: return "automatic";
    case gelu_matmul_backward_variant::cublaslt: return "cublaslt";
    case gelu_matmul_backward_variant::tensor_core: return "tensor_core";
  }
  return "unknown";
}

/// Threads a block of the bias gradients. On an H200 no other number is more than 1% faster.
template <gelu_matmul_backward_variant Variant>
inline constexpr int gelu_matmul_backward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

/// How many partial sums of each column a product leaves for column_sum's second stage.
inline std::int64_t product_sum_chunks(std::int64_t rows) {
  return ceil_div(rows, products::column_sum_rows);
}

/// Whether the product can leave sums of its columns on its way out. Each sum is over
/// column_sum_rows rows, which the end of a run must not cut. Else a pass over the result makes
/// the sums.
inline bool sums_columns_on_the_way(matmul_shape shape) {
  const std::int64_t run = rows_of_a_run(shape);
  return shape.rows <= run || run % products::column_sum_rows == 0;
}

}  // namespace detail

/// Bytes of scratch that gelu_matmul_backward needs for this shape.
inline std::size_t gelu_matmul_backward_workspace_bytes(matmul_shape shape) {
  constexpr const char* function = "llmc::gelu_matmul_backward_workspace_bytes";
  checks::require_shape(function, shape);
  const std::size_t before =
      detail::sums_columns_on_the_way(shape)
          ? checks::bytes<float>(function, detail::product_sum_chunks(shape.rows), shape.channels)
          : detail::column_sum_workspace_bytes(function, {shape.rows, shape.channels}, 1);
  const std::size_t after =
      detail::column_sum_workspace_bytes(function, {shape.rows, shape.out_channels}, 1);
  return before > after ? before : after;
}

/// The gradients of a linear layer whose input is the GELU of `gelu_inp`:
///
///     dgelu_inp[r][c] = gelu'(gelu_inp[r][c]) * sum_o dout[r][o] * weight[o][c]
///     dgelu_bias[c]   = sum_r dgelu_inp[r][c]    for the bias of the layer before the GELU
///     dweight[o][c]   = sum_r dout[r][o] * inp[r][c]
///     dbias[o]        = sum_r dout[r][o]
///
/// @param[out]    dgelu_inp  (rows, C), overwritten whatever `mode` says; null: neither it nor
///                           dgelu_bias is computed
/// @param[in,out] dgelu_bias (C), overwritten or added to as `mode` says; null: not computed
/// @param[in,out] dweight    (OC, C), likewise
/// @param[in,out] dbias      (OC), likewise
/// @param[out]    scratch    gelu_matmul_backward_workspace_bytes(shape) bytes, aligned to 16; its
///                           contents are lost; may be null where both bias gradients are
/// @param[in]     dout       (rows, OC)
/// @param[in]     gelu_inp   (rows, C), before_gelu of the forward pass; may be null where
///                           dgelu_inp is
/// @param[in]     inp        (rows, C), gelu(gelu_inp); may be null where dweight is
/// @param[in]     weight     (OC, C); may be null where dgelu_inp is
/// @param         arithmetic of the two products, as in matmul_forward
/// @param[in,out] context    of the current device; its workspace is in use until the stream has
///                           run this
///
/// No output may alias another array. Sums over no rows are 0. Any alignment. Deterministic. Throws
/// invalid_argument for rows < 0, C < 1, OC < 1, a null array that is needed, a context of another
/// device or, where a bias gradient is computed, a scratch that is null, too small or not aligned;
/// unsupported if `tensor_core` is named for ieee; cublas_error or cuda_error if a launch fails.
template <gelu_matmul_backward_variant Variant = gelu_matmul_backward_variant::automatic,
          int BlockSize = gelu_matmul_backward_block_size<Variant>>
void gelu_matmul_backward(float* dgelu_inp, float* dgelu_bias, float* dweight, float* dbias,
                          workspace scratch, const float* dout, const float* gelu_inp,
                          const float* inp, const float* weight, matmul_shape shape,
                          precision arithmetic, accumulation mode, matmul_context& context,
                          cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "gelu_matmul_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::gelu_matmul_backward";
  checks::require_shape(function, shape);
  checks::require_at_least(function, "channels", shape.channels, 1);
  constexpr auto engines = detail::matmul_engines<Variant>();
  checks::require_engines(function, engines, arithmetic);
  if (shape.rows > 0) {
    checks::require_pointer(function, "dout", dout);
    if (dweight != nullptr) checks::require_pointer(function, "inp", inp);
    if (dgelu_inp != nullptr) {
      checks::require_pointer(function, "gelu_inp", gelu_inp);
      checks::require_pointer(function, "weight", weight);
    }
  }
  if (dgelu_bias != nullptr || dbias != nullptr) {
    checks::require_workspace(function, scratch, gelu_matmul_backward_workspace_bytes(shape));
  }

  if (dgelu_inp != nullptr) {
    const bool on_the_way = dgelu_bias != nullptr && detail::sums_columns_on_the_way(shape);
    float* const sums = on_the_way ? static_cast<float*>(scratch.data) : nullptr;
    products::epilogue then;
    then.gelu_inp = gelu_inp;
    then.column_sums = sums;
    detail::matmul_input_gradient(function, dgelu_inp, dout, weight, shape, then, arithmetic,
                                  engines, context, stream);
    if (on_the_way) {
      detail::column_sum_total<1>(function, {{dgelu_bias}}, sums, shape.channels,
                                  detail::product_sum_chunks(shape.rows), mode, stream);
    } else if (dgelu_bias != nullptr) {
      detail::sum_bias_gradient<BlockSize>(function, dgelu_bias, scratch.data, dgelu_inp,
                                           {shape.rows, shape.channels}, mode, stream);
    }
  }
  if (dweight != nullptr) {
    detail::matmul_weight_gradient<BlockSize>(function, dweight, dout, inp, shape, arithmetic, mode,
                                              engines, context, stream);
  }
  if (dbias != nullptr) {
    detail::sum_bias_gradient<BlockSize>(function, dbias, scratch.data, dout,
                                         {shape.rows, shape.out_channels}, mode, stream);
  }
}

LLMC_NAMESPACE_END
