/// @file
/// The residual add and the layer normalisation of its result in one pass over memory; see
/// layernorm.cuh for the formula:
///
///     residual = inp1 + inp2
///     out      = layernorm(residual)
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

#include <llmc/detail/bias_gradient.cuh>
#include <llmc/detail/checks.hpp>
#include <llmc/detail/elementwise.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/layernorm/backward.cuh>
#include <llmc/detail/layernorm/forward.cuh>
#include <llmc/detail/layernorm/launch_backward.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/detail/residual_forward.cuh>
#include <llmc/detail/residual_layernorm/thread_per_row.cuh>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class residual_layernorm_forward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread owns a row and passes over it three times. Wins nowhere: it shows what it is worth
  /// that a warp reads a row together. Its sums are not trees, so they lose more digits on long
  /// rows.
  thread_per_row,
  /// The residual add, then layernorm_forward_variant::warp_per_row. Wins nowhere: it shows what
  /// the fusion in warp_per_row is worth.
  separate_passes,
  /// A warp owns a row, reads both inputs once and writes their sum; later passes find the sum in
  /// the cache. Wins for rows that row_in_registers cannot take, from a few hundred rows on.
  warp_per_row,
  /// layernorm_forward_variant::row_in_registers of the sum, which never leaves the registers.
  row_in_registers
};

inline constexpr std::array residual_layernorm_forward_variants{
    residual_layernorm_forward_variant::automatic,
    residual_layernorm_forward_variant::thread_per_row,
    residual_layernorm_forward_variant::separate_passes,
    residual_layernorm_forward_variant::warp_per_row,
    residual_layernorm_forward_variant::row_in_registers};

constexpr const char* to_string(residual_layernorm_forward_variant variant) {
  switch (variant) {
    case residual_layernorm_forward_variant::automatic: return "automatic";
    case residual_layernorm_forward_variant::thread_per_row: return "thread_per_row";
    case residual_layernorm_forward_variant::separate_passes: return "separate_passes";
    case residual_layernorm_forward_variant::warp_per_row: return "warp_per_row";
    case residual_layernorm_forward_variant::row_in_registers: return "row_in_registers";
  }
  return "unknown";
}

/// Threads a block.
template <residual_layernorm_forward_variant Variant>
inline constexpr int residual_layernorm_forward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

/// out = inp1 + inp2, two matrices of that shape.
template <int BlockSize>
void launch_residual_forward(const char* function, float* out, const float* inp1, const float* inp2,
                             row_shape shape, cudaStream_t stream) {
  launch_elementwise<BlockSize, 2>(function, shape.rows * shape.channels,
                                   is_16_byte_aligned(out, inp1, inp2),
                                   residual_forward_operation{{}, out, inp1, inp2}, stream);
}

/// The rest of residual_layernorm_forward, for arguments that were checked.
template <residual_layernorm_forward_variant Variant, int BlockSize>
void launch_residual_layernorm_forward(const char* function,
                                       const layernorm_forward_arrays<residual_input>& a,
                                       row_shape shape, float epsilon, cudaStream_t stream) {
  using variant = residual_layernorm_forward_variant;
  if constexpr (Variant == variant::thread_per_row) {
    launch_residual_layernorm_forward_by_threads<BlockSize>(function, a, shape, epsilon, stream);
  } else if constexpr (Variant == variant::separate_passes) {
    launch_residual_forward<BlockSize>(function, a.input.residual, a.input.inp1, a.input.inp2,
                                       shape, stream);
    launch_layernorm_forward_by_warps<BlockSize, layernorm_input>(
        function, {a.out, a.mean, a.rstd, {a.input.residual}, a.weight, a.bias}, shape, epsilon,
        stream);
  } else {
    launch_layernorm_forward<Variant, BlockSize>(function, a, shape, epsilon, stream);
  }
}

}  // namespace detail

/// Adds two matrices and normalises every row of the sum.
///
/// @param[out] residual  (rows, C), overwritten by inp1 + inp2; may alias `inp1` or `inp2`
/// @param[out] out       (rows, C), overwritten; may alias nothing
/// @param[out] mean      (rows), overwritten; may be null where no backward pass follows
/// @param[out] rstd      (rows), overwritten; may be null likewise
/// @param[in]  inp1      (rows, C)
/// @param[in]  inp2      (rows, C)
/// @param[in]  weight    (C)
/// @param[in]  bias      (C)
/// @param      epsilon   added to the variance; GPT-2 uses 1e-5
///
/// Any alignment. Deterministic. Throws invalid_argument for rows < 0, channels < 1, a null array
/// or an epsilon that is negative or not finite; unsupported if `row_in_registers` is named for
/// longer rows than it takes; cuda_error if a launch fails.
template <
    residual_layernorm_forward_variant Variant = residual_layernorm_forward_variant::automatic,
    int BlockSize = residual_layernorm_forward_block_size<Variant>>
void residual_layernorm_forward(float* residual, float* out, float* mean, float* rstd,
                                const float* inp1, const float* inp2, const float* weight,
                                const float* bias, row_shape shape, float epsilon,
                                cudaStream_t stream) {
  static_assert(
      detail::is_block_size(BlockSize),
      "residual_layernorm_forward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::residual_layernorm_forward";
  checks::require_shape(function, shape);
  checks::require_finite_at_least(function, "epsilon", epsilon, 0.0);
  if (shape.rows == 0) return;
  checks::require_pointer(function, "residual", residual);
  checks::require_pointer(function, "out", out);
  checks::require_pointer(function, "inp1", inp1);
  checks::require_pointer(function, "inp2", inp2);
  checks::require_pointer(function, "weight", weight);
  checks::require_pointer(function, "bias", bias);

  detail::launch_residual_layernorm_forward<Variant, BlockSize>(
      function, {out, mean, rstd, {residual, inp1, inp2}, weight, bias}, shape, epsilon, stream);
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class residual_layernorm_backward_variant {
  /// The best for this device and shape.
  automatic,
  /// layernorm_backward_variant::thread_per_row with one more term in dinp. Wins nowhere. Not
  /// deterministic: warps add in the order in which they arrive. `automatic` never chooses it.
  thread_per_row,
  /// layernorm_backward_variant::warp_per_row, then the residual add. Where dinp is dresidual this
  /// is one pass, since the first would overwrite dresidual. Wins nowhere: it shows what the fusion
  /// in warp_per_row is worth.
  separate_passes,
  /// layernorm_backward_variant::warp_per_row with one more term in dinp.
  warp_per_row,
  /// layernorm_backward_variant::register_partials with one more term in dinp.
  register_partials
};

inline constexpr std::array residual_layernorm_backward_variants{
    residual_layernorm_backward_variant::automatic,
    residual_layernorm_backward_variant::thread_per_row,
    residual_layernorm_backward_variant::separate_passes,
    residual_layernorm_backward_variant::warp_per_row,
    residual_layernorm_backward_variant::register_partials};

constexpr const char* to_string(residual_layernorm_backward_variant variant) {
  switch (variant) {
    case residual_layernorm_backward_variant::automatic: return "automatic";
    case residual_layernorm_backward_variant::thread_per_row: return "thread_per_row";
    case residual_layernorm_backward_variant::separate_passes: return "separate_passes";
    case residual_layernorm_backward_variant::warp_per_row: return "warp_per_row";
    case residual_layernorm_backward_variant::register_partials: return "register_partials";
  }
  return "unknown";
}

/// Threads a block.
template <residual_layernorm_backward_variant Variant>
inline constexpr int residual_layernorm_backward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

/// warp_per_row without the residual, which a second pass adds.
template <int BlockSize>
void launch_residual_layernorm_backward_in_passes(const char* function,
                                                  const layernorm_backward_arrays& a,
                                                  row_shape shape, accumulation mode,
                                                  cudaStream_t stream) {
  layernorm_backward_arrays first = a;
  if (a.addend != a.dinp) first.addend = nullptr;  // else the first pass overwrites it
  launch_layernorm_backward_by_warps<BlockSize>(function, first, shape, mode, stream);
  if (first.addend != a.addend) {
    launch_residual_forward<BlockSize>(function, a.dinp, a.dinp, a.addend, shape, stream);
  }
  if (a.dinp_bias != nullptr) {
    sum_bias_gradient<BlockSize>(function, a.dinp_bias, a.scratch, a.dinp, shape, mode, stream);
  }
}

}  // namespace detail

/// Bytes of scratch that residual_layernorm_backward needs for this shape, in any variant and block
/// size, with or without dinp_bias.
inline std::size_t residual_layernorm_backward_workspace_bytes(row_shape shape) {
  return detail::layernorm_backward_workspace_bytes(
      "llmc::residual_layernorm_backward_workspace_bytes", shape, 3);
}

/// The gradients of residual_layernorm_forward. The gradient of `residual` is the sum of the
/// gradients of its two uses, and it is the gradient of both inputs:
///
///     dinp = dresidual + the dinp of layernorm_backward(dout)
///
/// dweight and dbias are those of layernorm_backward. Where inp2 is the output of a linear layer
/// with a bias, the gradient of that bias is a column sum of dinp, which costs little here:
///
///     dinp_bias[c] = sum_rows dinp
///
/// @param[out]    dinp      (rows, C), the gradient of inp1 and of inp2; overwritten whatever
///                          `mode` says; may alias `dresidual` or `dout`
/// @param[in,out] dinp_bias (C), overwritten or added to as `mode` says; 0 for no rows; null: not
///                          computed
/// @param[in,out] dweight   (C), likewise, but never null
/// @param[in,out] dbias     (C), likewise, but never null
/// @param[out]    scratch   residual_layernorm_backward_workspace_bytes(shape) bytes, aligned
///                          to 16; its contents are lost
/// @param[in]     dout      (rows, C), the gradient of out
/// @param[in]     dresidual (rows, C), the gradient of residual from its other uses; null means 0
/// @param[in]     residual  (rows, C), from the forward pass
/// @param[in]     weight    (C)
/// @param[in]     mean      (rows), from the forward pass
/// @param[in]     rstd      (rows), from the forward pass
///
/// Any alignment. Deterministic, except for `thread_per_row`: the bits depend on the arguments, on
/// whether the arrays are aligned to 16 bytes, and on Variant and BlockSize, not on the card.
/// Throws invalid_argument for rows < 0, channels < 1, a null array other than dresidual and
/// dinp_bias, or a scratch that is null, too small or not aligned; unsupported if
/// `register_partials` is named for longer rows than it takes; cuda_error if a launch fails.
template <
    residual_layernorm_backward_variant Variant = residual_layernorm_backward_variant::automatic,
    int BlockSize = residual_layernorm_backward_block_size<Variant>>
void residual_layernorm_backward(float* dinp, float* dinp_bias, float* dweight, float* dbias,
                                 workspace scratch, const float* dout, const float* dresidual,
                                 const float* residual, const float* weight, const float* mean,
                                 const float* rstd, row_shape shape, accumulation mode,
                                 cudaStream_t stream) {
  static_assert(
      detail::is_block_size(BlockSize),
      "residual_layernorm_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::residual_layernorm_backward";
  const detail::layernorm_backward_arrays arrays{
      dinp, dweight, dbias,    static_cast<float*>(scratch.data), dresidual, dout, residual, weight,
      mean, rstd,    dinp_bias};
  detail::check_layernorm_backward(function, "residual", arrays, scratch, shape, 3);
  if constexpr (Variant == residual_layernorm_backward_variant::separate_passes) {
    detail::launch_residual_layernorm_backward_in_passes<BlockSize>(function, arrays, shape, mode,
                                                                    stream);
  } else if (dinp_bias != nullptr) {
    detail::launch_layernorm_backward<Variant, BlockSize, true>(function, arrays, shape, mode,
                                                                stream);
  } else {
    detail::launch_layernorm_backward<Variant, BlockSize>(function, arrays, shape, mode, stream);
  }
}

LLMC_NAMESPACE_END
