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

#include <array>
#include <cstddef>
#include <cstdint>

#include <llmc/detail/attention/flash/flash.cuh>
#include <llmc/detail/attention/gradient.cuh>
#include <llmc/detail/attention/materialised.cuh>
#include <llmc/detail/attention/naive.cuh>
#include <llmc/detail/checks.hpp>
#include <llmc/detail/column_sum.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/matmul_context.hpp>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class attention_forward_variant {
  /// The best for this device, shape and precision: `flash` wherever it takes the shape, else (head
  /// sizes above 128) `materialised` with a matmul_context and `naive` without one.
  automatic,
  /// A thread owns a query: it computes each score twice, for the maximum and for the weight, and
  /// sums `out` in memory. Every precision is done in IEEE FP32. Any head size, and no value of a
  /// masked position reaches an earlier one. Wins nowhere.
  naive,
  /// Scores in memory, for a run of queries at a time and only for the keys that the run can see:
  /// batched products by cuBLASLt and a softmax between them. `tf32x3` is done in IEEE FP32. Any
  /// head size, but it needs a matmul_context, and a workspace that grows with the scores of a run.
  /// A masked key takes part with weight 0, so an infinity or NaN in its value spoils earlier
  /// positions of the run.
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

/// Threads a block. `flash` takes 128 only, for which its tiles are made. With `automatic` the
/// number serves the shapes that `flash` does not take.
template <attention_forward_variant Variant>
inline constexpr int attention_forward_block_size =
    Variant == attention_forward_variant::flash   ? 128
    : Variant == attention_forward_variant::naive ? 64
                                                  : 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Bytes of scratch that attention_forward needs with a matmul_context.
inline std::size_t attention_forward_scratch(const char* function, attention_shape shape,
                                             attention_forward_variant chosen) {
  if (chosen != attention_forward_variant::materialised) return 0;
  return materialised_forward_workspace(function, shape).bytes();
}

}  // namespace detail

/// Causal self-attention; see the top of this file for the formula. This overload is for all
/// variants but `materialised`.
///
/// @param[out] out        (B, T, NH, HS), overwritten; must not alias an input
/// @param[out] lse        (B, NH, T), overwritten: what backward needs
/// @param[in]  qkv        (B, T, 3, NH, HS): queries, keys and values of each position
/// @param      arithmetic any precision; those that the card has no tensor cores for are done as
///                        ieee
///
/// Any alignment. Deterministic. The softmax is right at any magnitude of finite scores. Throws
/// invalid_argument for a negative extent, NH < 1, HS < 1 or a null array; unsupported if `flash`
/// is named for a shape that it does not take; cuda_error if a launch fails.
template <attention_forward_variant Variant = attention_forward_variant::automatic,
          int BlockSize = attention_forward_block_size<Variant>>
void attention_forward(float* out, float* lse, const float* qkv, attention_shape shape,
                       precision arithmetic, cudaStream_t stream) {
  using variant = attention_forward_variant;
  static_assert(Variant != variant::materialised,
                "attention_forward: the variant materialised needs a matmul_context");
  static_assert(detail::is_block_size(BlockSize),
                "attention_forward: BlockSize must be a multiple of 32 between 32 and 1024");
  static_assert(Variant != variant::flash || BlockSize == detail::flash_block_size,
                "attention_forward: the variant flash takes a BlockSize of 128");
  constexpr const char* function = "llmc::attention_forward";
  checks::require_shape(function, shape);
  if constexpr (Variant == variant::flash) detail::require_flash(function, shape);
  if (shape.batch == 0 || shape.sequence == 0) return;
  const detail::attention_forward_arrays arrays{out, lse, qkv};
  arrays.require(function);
  if constexpr (Variant != variant::naive) {
    if (detail::flash_takes(shape)) {
      detail::flash_attention<>{function, shape, arithmetic, stream}.forward(arrays);
      return;
    }
  }
  if constexpr (Variant != variant::flash) {
    detail::naive_attention{function, shape, BlockSize, stream}.forward(arrays);
  }
}

/// Bytes of scratch that attention_forward needs with a matmul_context, for this shape in any
/// precision: none where `automatic` takes `flash`. Without a context it needs none.
template <attention_forward_variant Variant = attention_forward_variant::automatic>
std::size_t attention_forward_workspace_bytes(attention_shape shape) {
  using variant = attention_forward_variant;
  constexpr const char* function = "llmc::attention_forward_workspace_bytes";
  checks::require_shape(function, shape);
  if constexpr (Variant == variant::flash) detail::require_flash(function, shape);
  return detail::attention_forward_scratch(
      function, shape, detail::chosen_attention(Variant, shape, variant::materialised));
}

/// The overload for `automatic` and `materialised`. It takes what products by cuBLASLt need.
///
/// @param[out]    scratch attention_forward_workspace_bytes<Variant>(shape) bytes, aligned to 16;
///                        its contents are lost
/// @param[in,out] context of the current device; where `materialised` runs, the context's own
///                        workspace is in use until the stream has run this
///
/// Throws also invalid_argument for a scratch that is too small or not aligned and, where
/// `materialised` runs, a context of another device; cublas_error if a product fails.
template <attention_forward_variant Variant = attention_forward_variant::automatic,
          int BlockSize = attention_forward_block_size<Variant>>
void attention_forward(float* out, float* lse, workspace scratch, const float* qkv,
                       attention_shape shape, precision arithmetic, matmul_context& context,
                       cudaStream_t stream) {
  using variant = attention_forward_variant;
  static_assert(Variant == variant::automatic || Variant == variant::materialised,
                "attention_forward: the variants naive and flash take no matmul_context");
  static_assert(detail::is_block_size(BlockSize),
                "attention_forward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::attention_forward";
  checks::require_shape(function, shape);
  const variant chosen = detail::chosen_attention(Variant, shape, variant::materialised);
  checks::require_workspace(function, scratch,
                            detail::attention_forward_scratch(function, shape, chosen));
  if (shape.batch == 0 || shape.sequence == 0) return;
  const detail::attention_forward_arrays arrays{out, lse, qkv};
  arrays.require(function);
  if constexpr (Variant == variant::automatic) {
    if (chosen == variant::flash) {
      detail::flash_attention<>{function, shape, arithmetic, stream}.forward(arrays);
      return;
    }
  }
  detail::materialised_attention<BlockSize>{function, shape, arithmetic, context, stream}.forward(
      arrays, scratch.data);
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class attention_backward_variant {
  /// The best for this device, shape and precision: `flash` wherever it takes the shape, else (head
  /// sizes above 128) `materialised` with a matmul_context and `naive` without one.
  automatic,
  /// Two kernels. In the first a thread owns a query and sums its dq; in the second a thread owns a
  /// key and sums its dk and dv over the queries, the last first. Sums are in memory, in a fixed
  /// order, and both kernels compute every probability. Every precision is done in IEEE FP32. Any
  /// head size. Wins nowhere.
  naive,
  /// Makes the probabilities again from q, k and lse, in memory, for a run of queries at a time;
  /// then five batched products by cuBLASLt. Needs a matmul_context. `tf32x3` is done in IEEE FP32.
  materialised,
  /// Two kernels that store no score: one sums dq over the keys, the other sums dk and dv over the
  /// queries, each in a fixed order. Precisions, head sizes and what an infinity or NaN at a masked
  /// position spoils are those of attention_forward's `flash`. Use one precision in both
  /// directions: then their scores agree to the last bits.
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

/// Threads a block. `flash` takes 128 only, for which its tiles are made. With `automatic` the
/// number serves the shapes that `flash` does not take.
template <attention_backward_variant Variant>
inline constexpr int attention_backward_block_size =
    Variant == attention_backward_variant::flash   ? 128
    : Variant == attention_backward_variant::naive ? 64
                                                   : 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
/// Bytes of scratch that attention_backward needs for this shape in any precision. `naive` needs
/// little more than one float for each row of scores; `flash` needs in addition one for each
/// channel of every 64 positions. Without a matmul_context, `automatic` may take `naive`: then the
/// bytes of `naive` are enough.
template <attention_backward_variant Variant = attention_backward_variant::automatic>
std::size_t attention_backward_workspace_bytes(attention_shape shape) {
  using variant = attention_backward_variant;
  constexpr const char* function = "llmc::attention_backward_workspace_bytes";
  checks::require_shape(function, shape);
  if constexpr (Variant == variant::flash) detail::require_flash(function, shape);
  return detail::attention_gradient_bytes(
      function, shape, detail::chosen_attention(Variant, shape, variant::materialised));
}

/// The gradients of attention_forward. With p = exp(score - lse), dp[t][j] = sum_d dout[t][d]
/// v[j][d] and delta[t] = sum_d dout[t][d] out[t][d]:
///
///     ds[t][j] = p[t][j] * (dp[t][j] - delta[t])
///     dq[t] = scale * sum_j ds[t][j] k[j],  dk[j] = scale * sum_t ds[t][j] q[t],
///     dv[j] = sum_t p[t][j] dout[t]
///
/// This overload is for all variants but `materialised`.
///
/// @param[out]    dqkv      (B, T, 3, NH, HS), overwritten whatever `mode` says; must not alias an
///                          input
/// @param[in,out] dqkv_bias (3, NH, HS), the sums of dqkv over all positions: the bias gradient of
///                          the linear layer that made qkv; overwritten or added to as `mode` says;
///                          0 for no positions; null: not computed
/// @param[out]    scratch   attention_backward_workspace_bytes<Variant>(shape) bytes, aligned to
///                          16; its contents are lost
/// @param[in]     dout      (B, T, NH, HS)
/// @param[in]     qkv       (B, T, 3, NH, HS), the input of the forward pass
/// @param[in]     out       (B, T, NH, HS), from the forward pass
/// @param[in]     lse       (B, NH, T), from the forward pass
/// @param         arithmetic any precision; those that the card has no tensor cores for are done as
///                          ieee
///
/// Any alignment of all arrays but the scratch. Deterministic. Throws as attention_forward does,
/// and invalid_argument for a scratch that is too small or not aligned.
template <attention_backward_variant Variant = attention_backward_variant::automatic,
          int BlockSize = attention_backward_block_size<Variant>>
void attention_backward(float* dqkv, float* dqkv_bias, workspace scratch, const float* dout,
                        const float* qkv, const float* out, const float* lse, attention_shape shape,
                        precision arithmetic, accumulation mode, cudaStream_t stream) {
  using variant = attention_backward_variant;
  static_assert(Variant != variant::materialised,
                "attention_backward: the variant materialised needs a matmul_context");
  static_assert(Variant != variant::flash || BlockSize == detail::flash_block_size,
                "attention_backward: the variant flash takes a BlockSize of 128");
  constexpr const char* function = "llmc::attention_backward";
  checks::require_shape(function, shape);
  if constexpr (Variant == variant::flash) detail::require_flash(function, shape);
  const detail::attention_gradient<BlockSize> gradient{
      function, {dqkv, dout, qkv, out, lse}, dqkv_bias, scratch, shape, mode, stream};
  const variant chosen = detail::chosen_attention(Variant, shape, variant::naive);
  if (!gradient.begin(chosen)) return;
  if constexpr (Variant != variant::naive) {
    if (chosen == variant::flash) return gradient.flash(arithmetic);
  }
  if constexpr (Variant != variant::flash) gradient.naive();
}

/// The overload for `automatic` and `materialised`. It takes what products by cuBLASLt need.
///
/// @param[in,out] context of the current device; where `materialised` runs, the context's own
///                        workspace is in use until the stream has run this
///
/// Throws also, where `materialised` runs, invalid_argument for a context of another device and
/// cublas_error if a product fails.
template <attention_backward_variant Variant = attention_backward_variant::automatic,
          int BlockSize = attention_backward_block_size<Variant>>
void attention_backward(float* dqkv, float* dqkv_bias, workspace scratch, const float* dout,
                        const float* qkv, const float* out, const float* lse, attention_shape shape,
                        precision arithmetic, accumulation mode, matmul_context& context,
                        cudaStream_t stream) {
  using variant = attention_backward_variant;
  static_assert(Variant == variant::automatic || Variant == variant::materialised,
                "attention_backward: the variants naive and flash take no matmul_context");
  constexpr const char* function = "llmc::attention_backward";
  checks::require_shape(function, shape);
  const detail::attention_gradient<BlockSize> gradient{
      function, {dqkv, dout, qkv, out, lse}, dqkv_bias, scratch, shape, mode, stream};
  const variant chosen = detail::chosen_attention(Variant, shape, variant::materialised);
  if (!gradient.begin(chosen)) return;
  if constexpr (Variant == variant::automatic) {
    if (chosen == variant::flash) return gradient.flash(arithmetic);
  }
  gradient.materialised(arithmetic, context);
}

LLMC_NAMESPACE_END
