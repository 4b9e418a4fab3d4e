/// @file
/// Causal self-attention of NH heads of size HS, with scale = 1 / sqrt(HS); for each head
///
///     score[t][j] = scale * sum_d q[t][d] * k[j][d]        for j <= t
///     lse[t]      = log sum_{j <= t} exp(score[t][j])
///     out[t][d]   = sum_{j <= t} exp(score[t][j] - lse[t]) * v[j][d]
///
/// The attention matrix itself is never kept: backward makes it again from q, k and lse.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <llmc/detail/attention/flash.cuh>
#include <llmc/detail/attention/materialised.cuh>
#include <llmc/detail/attention/naive.cuh>
#include <llmc/detail/bias_gradient.cuh>
#include <llmc/detail/checks.hpp>
#include <llmc/detail/column_sum.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/matmul_context.hpp>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class attention_forward_variant {
  /// The best for this device, shape and precision: `flash` wherever it takes the shape.
  automatic,
  /// A thread owns a query: it computes each score twice, for the maximum and for the weight, and
  /// sums `out` in memory. Every precision is done in IEEE FP32. No workspace, any head size, and
  /// nothing of a masked position reaches an earlier one. Wins nowhere.
  naive,
  /// Scores in memory, for a run of queries at a time and only for the keys that the run can see:
  /// batched products by cuBLASLt and a softmax between them. `tf32x3` is done in IEEE FP32. Any
  /// head size, but the workspace grows with the scores of a run. A masked key takes part with
  /// weight 0, so an infinity or NaN in its value spoils earlier positions of the run.
  materialised,
  /// One kernel that streams keys and values past queries and never stores a score. `tf32` and
  /// `tf32x3` run on tensor cores (sm_80 on, in code compiled for sm_80 or later; elsewhere they
  /// are done as `ieee`), `ieee` in FP32 multiply-adds. Head sizes up to 128: 64, 80, 96 and 128
  /// with 16-byte aligned arrays are fastest, others are padded on the chip. A masked key takes
  /// part with weight 0 in the tile that it shares with a query, so an infinity or NaN in its value
  /// spoils up to 63 earlier positions, those from the last multiple of 64 on.
  flash
};

inline constexpr std::array attention_forward_variants{
    attention_forward_variant::automatic, attention_forward_variant::naive,
    attention_forward_variant::materialised, attention_forward_variant::flash};

constexpr const char* to_string(attention_forward_variant variant) {
  switch (variant) {
    case attention_forward_variant::automatic: return "automatic";
    case attention_forward_variant::naive: return "naive";
    case attention_forward_variant::materialised: return "materialised";
    case attention_forward_variant::flash: return "flash";
  }
  return "unknown";
}

/// Threads a block. The tiles of `flash` are made for 128 and take no other; for `automatic` it is
/// that of the shapes which `flash` does not take.
template <attention_forward_variant Variant>
inline constexpr int attention_forward_block_size =
    Variant == attention_forward_variant::flash   ? 128
    : Variant == attention_forward_variant::naive ? 64
                                                  : 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN

/// Bytes of scratch that attention_forward needs for this shape in any precision: none for `naive`
/// and where `flash` takes it.
template <attention_forward_variant Variant = attention_forward_variant::automatic>
std::size_t attention_forward_workspace_bytes(attention_shape shape) {
  using variant = attention_forward_variant;
  constexpr const char* function = "llmc::attention_forward_workspace_bytes";
  checks::require_shape(function, shape);
  if constexpr (Variant == variant::flash) detail::require_flash(function, shape);
  if (Variant == variant::naive) return 0;
  if (Variant != variant::materialised && detail::flash_takes(shape)) return 0;
  return detail::materialised_forward_workspace(function, shape).bytes();
}

/// Causal self-attention; see the top of this file for the formula.
///
/// @param[out]    out       (B, T, NH, HS), overwritten; must not alias an input
/// @param[out]    lse       (B, NH, T), overwritten: what backward needs
/// @param[out]    workspace attention_forward_workspace_bytes<Variant>(shape) bytes, aligned to
///                          16; its contents are lost; may be null where that is 0
/// @param[in]     qkv       (B, T, 3, NH, HS): queries, keys and values of each position
/// @param         arithmetic ieee, tf32 or tf32x3; where the card has no TF32 all three are ieee
/// @param[in,out] context   of the current device; where `materialised` runs, its workspace is used
///                          until the stream gets there
///
/// Any alignment of out, lse and qkv. Deterministic. The softmax is right at any magnitude of
/// finite scores. Throws invalid_argument for a negative extent, NH < 1, HS < 1, a null array or,
/// where `materialised` runs, a context of another device; unsupported if `flash` is named for a
/// shape that it does not take; cublas_error or cuda_error if a product or a launch fails.
template <attention_forward_variant Variant = attention_forward_variant::automatic,
          int BlockSize = attention_forward_block_size<Variant>>
void attention_forward(float* out, float* lse, void* workspace, const float* qkv,
                       attention_shape shape, precision arithmetic, matmul_context& context,
                       cudaStream_t stream) {
  using variant = attention_forward_variant;
  static_assert(detail::is_block_size(BlockSize),
                "attention_forward: BlockSize must be a multiple of 32 between 32 and 1024");
  static_assert(Variant != variant::flash || BlockSize == detail::flash_block_size,
                "attention_forward: the variant flash takes a BlockSize of 128");
  constexpr const char* function = "llmc::attention_forward";
  checks::require_shape(function, shape);
  if constexpr (Variant == variant::flash) detail::require_flash(function, shape);
  if (shape.batch == 0 || shape.sequence == 0) return;
  checks::require_pointer(function, "out", out);
  checks::require_pointer(function, "lse", lse);
  checks::require_pointer(function, "qkv", qkv);
  if constexpr (Variant == variant::naive) {
    detail::naive_attention{function, shape, BlockSize, stream}.forward(out, lse, qkv);
  }
  if constexpr (Variant == variant::automatic || Variant == variant::flash) {
    if (detail::flash_takes(shape)) {
      detail::flash_attention<>{function, shape, arithmetic, stream}.forward({out, lse, qkv});
      return;
    }
  }
  if constexpr (Variant == variant::automatic || Variant == variant::materialised) {
    checks::require_pointer(function, "workspace", workspace);
    detail::materialised_attention<BlockSize>{function, shape, arithmetic, context, stream}.forward(
        out, lse, workspace, qkv);
  }
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class attention_backward_variant {
  /// The best for this device, shape and precision: `flash` wherever it takes the shape.
  automatic,
  /// A thread owns a query and sums its dq; then a thread owns a key and sums its dk and dv over
  /// the queries, the last first. Each gradient is summed in memory by one thread in one order, and
  /// every probability is computed once for each. Every precision is done in IEEE FP32. Any head
  /// size. Wins nowhere.
  naive,
  /// The probabilities made again in memory from q, k and lse, for a run of queries at a time, and
  /// five batched products by cuBLASLt. `tf32x3` is done in IEEE FP32.
  materialised,
  /// Two kernels that store no score: one sums dq for queries over the keys, the other dk and dv
  /// for keys over the queries, each gradient in one fixed order. Precisions, head sizes and what
  /// an infinity or NaN of a masked position reaches are as in attention_forward's `flash`; take
  /// both directions in the same precision, whose scores then agree to the last bits.
  flash
};

inline constexpr std::array attention_backward_variants{
    attention_backward_variant::automatic, attention_backward_variant::naive,
    attention_backward_variant::materialised, attention_backward_variant::flash};

constexpr const char* to_string(attention_backward_variant variant) {
  switch (variant) {
    case attention_backward_variant::automatic: return "automatic";
    case attention_backward_variant::naive: return "naive";
    case attention_backward_variant::materialised: return "materialised";
    case attention_backward_variant::flash: return "flash";
  }
  return "unknown";
}

/// Threads a block. The tiles of `flash` are made for 128 and take no other; for `automatic` it is
/// that of the shapes which `flash` does not take.
template <attention_backward_variant Variant>
inline constexpr int attention_backward_block_size =
    Variant == attention_backward_variant::flash   ? 128
    : Variant == attention_backward_variant::naive ? 64
                                                   : 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The scratch of attention_backward by itself, without that of dqkv_bias.
template <attention_backward_variant Variant>
std::size_t attention_gradient_bytes(const char* function, attention_shape shape) {
  using variant = attention_backward_variant;
  if (Variant == variant::naive || (Variant != variant::materialised && flash_takes(shape))) {
    constexpr std::int64_t aligned = 4;  // floats, for what comes behind
    const std::int64_t rows = checks::product(function, shape.batch, shape.heads, shape.sequence);
    return checks::bytes<float>(function, ceil_div(rows, aligned), aligned);
  }
  return materialised_backward_workspace(function, shape).bytes();
}

/// A row of qkv as one of a linear layer's outputs.
inline row_shape qkv_rows(attention_shape shape) {
  return {shape.batch * shape.sequence, 3 * shape.heads * shape.head_size};
}

/// dqkv_bias (+)= sums over the rows of dqkv, by a pass of its own.
template <int BlockSize>
void sum_qkv_gradient(const char* function, float* dqkv_bias, void* workspace, const float* dqkv,
                      attention_shape shape, accumulation mode, cudaStream_t stream) {
  if (dqkv_bias == nullptr) return;
  sum_bias_gradient<BlockSize>(function, dqkv_bias, workspace, dqkv, qkv_rows(shape), mode, stream);
}

/// By the variant flash, whose tensor core kernels leave the sums of dqkv in parts.
template <int BlockSize>
void flash_attention_backward(const char* function, flash_backward_arrays arrays, float* dqkv_bias,
                              void* workspace, attention_shape shape, precision arithmetic,
                              accumulation mode, cudaStream_t stream) {
  const std::size_t delta_bytes =
      attention_gradient_bytes<attention_backward_variant::flash>(function, shape);
  arrays.delta = static_cast<float*>(workspace);
  if (dqkv_bias != nullptr) arrays.dqkv_sums = arrays.delta + delta_bytes / sizeof(float);
  const std::int64_t sums = flash_attention<>{function, shape, arithmetic, stream}.backward(arrays);
  if (dqkv_bias != nullptr && sums > 0) {
    column_sum_total<1>(function, {{dqkv_bias}}, arrays.dqkv_sums, qkv_rows(shape).channels, sums,
                        mode, stream);
  } else {
    sum_qkv_gradient<BlockSize>(function, dqkv_bias, workspace, arrays.dqkv, shape, mode, stream);
  }
}

}  // namespace detail

/// Bytes of scratch that attention_backward needs for this shape in any precision. For `naive` and
/// where `flash` takes it they are little more than one float for each row of scores, and one for
/// each channel of every 64 positions.
template <attention_backward_variant Variant = attention_backward_variant::automatic>
std::size_t attention_backward_workspace_bytes(attention_shape shape) {
  using variant = attention_backward_variant;
  constexpr const char* function = "llmc::attention_backward_workspace_bytes";
  checks::require_shape(function, shape);
  if constexpr (Variant == variant::flash) detail::require_flash(function, shape);
  const std::size_t gradients = detail::attention_gradient_bytes<Variant>(function, shape);
  const std::size_t pass = detail::column_sum_workspace_bytes(function, detail::qkv_rows(shape), 1);
  const bool is_flash = Variant == variant::automatic || Variant == variant::flash;
  const bool makes_sums = is_flash && detail::flash_takes(shape);
  return std::max(gradients + (makes_sums ? detail::flash_sums_bytes(function, shape) : 0), pass);
}

/// The gradients of attention_forward. With p = exp(score - lse), dp[t][j] = sum_d dout[t][d]
/// v[j][d] and delta[t] = sum_d dout[t][d] out[t][d]:
///
///     ds[t][j] = p[t][j] * (dp[t][j] - delta[t])
///     dq[t] = scale * sum_j ds[t][j] k[j],  dk[j] = scale * sum_t ds[t][j] q[t],
///     dv[j] = sum_t p[t][j] dout[t]
///
/// @param[out]    dqkv      (B, T, 3, NH, HS), overwritten whatever `mode` says; must not alias an
///                          input
/// @param[in,out] dqkv_bias (3, NH, HS), the sums of dqkv over all positions: the gradient of the
///                          bias of the linear layer that made qkv; overwritten or added to as
///                          `mode` says; 0 for no positions; null: not computed
/// @param[out]    workspace attention_backward_workspace_bytes<Variant>(shape) bytes, aligned to
///                          16; its contents are lost
/// @param[in]     dout      (B, T, NH, HS)
/// @param[in]     qkv       (B, T, 3, NH, HS), the input of the forward pass
/// @param[in]     out       (B, T, NH, HS), from the forward pass
/// @param[in]     lse       (B, NH, T), from the forward pass
/// @param         arithmetic ieee, tf32 or tf32x3; where the card has no TF32 all three are ieee
/// @param[in,out] context   of the current device; where `materialised` runs, its workspace is used
///                          until the stream gets there
///
/// Any alignment of all arrays but the workspace. Deterministic. Throws as attention_forward does.
template <attention_backward_variant Variant = attention_backward_variant::automatic,
          int BlockSize = attention_backward_block_size<Variant>>
void attention_backward(float* dqkv, float* dqkv_bias, void* workspace, const float* dout,
                        const float* qkv, const float* out, const float* lse, attention_shape shape,
                        precision arithmetic, accumulation mode, matmul_context& context,
                        cudaStream_t stream) {
  using variant = attention_backward_variant;
  static_assert(detail::is_block_size(BlockSize),
                "attention_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  static_assert(Variant != variant::flash || BlockSize == detail::flash_block_size,
                "attention_backward: the variant flash takes a BlockSize of 128");
  constexpr const char* function = "llmc::attention_backward";
  checks::require_shape(function, shape);
  if constexpr (Variant == variant::flash) detail::require_flash(function, shape);
  const auto sum_dqkv = [&] {
    detail::sum_qkv_gradient<BlockSize>(function, dqkv_bias, workspace, dqkv, shape, mode, stream);
  };
  if (shape.batch == 0 || shape.sequence == 0) return sum_dqkv();
  checks::require_pointer(function, "dqkv", dqkv);
  checks::require_pointer(function, "workspace", workspace);
  checks::require_pointer(function, "dout", dout);
  checks::require_pointer(function, "qkv", qkv);
  checks::require_pointer(function, "out", out);
  checks::require_pointer(function, "lse", lse);
  if constexpr (Variant == variant::naive) {
    detail::naive_attention{function, shape, BlockSize, stream}.backward(
        {dqkv, static_cast<float*>(workspace), dout, qkv, out, lse});
  }
  if constexpr (Variant == variant::automatic || Variant == variant::flash) {
    if (detail::flash_takes(shape)) {
      detail::flash_attention_backward<BlockSize>(function, {dqkv, nullptr, dout, qkv, out, lse},
                                                  dqkv_bias, workspace, shape, arithmetic, mode,
                                                  stream);
      return;
    }
  }
  if constexpr (Variant == variant::automatic || Variant == variant::materialised) {
    detail::materialised_attention<BlockSize>{function, shape, arithmetic, context, stream}
        .backward(dqkv, workspace, dout, qkv, out, lse);
  }
  sum_dqkv();
}

LLMC_NAMESPACE_END
