/// @file
/// Layer normalisation over the channels of each row (Ba, Kiros and Hinton, "Layer Normalization",
/// 2016):
///
///     mean = sum_c inp[c] / C
///     rstd = 1 / sqrt(sum_c (inp[c] - mean)^2 / C + epsilon)
///     out[c] = (inp[c] - mean) * rstd * weight[c] + bias[c]
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/layernorm/backward.cuh>
#include <llmc/detail/layernorm/forward.cuh>
#include <llmc/detail/layernorm/launch_backward.cuh>
#include <llmc/detail/layernorm/naive.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class layernorm_forward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread owns a row and passes over it three times: mean, squared deviations, result. Wins
  /// nowhere: it shows what it is worth that a warp reads a row together. Its sums are not trees,
  /// so they lose more digits on long rows.
  thread_per_row,
  /// A kernel for mean, one for rstd, one for the result. Wins nowhere: it shows what a single
  /// kernel is worth. Neither mean nor rstd may be null, since they carry the statistics from
  /// kernel to kernel.
  three_kernels,
  /// A warp owns a row and passes over it three times; the second and third pass hit the cache.
  /// Wins for rows that row_in_registers cannot take, from a few hundred rows on.
  warp_per_row,
  /// warp_per_row with one pass less: the variance is E[x^2] - E[x]^2. May win where later passes
  /// miss the cache. Only for rows whose mean is known to be small: the relative error of rstd is a
  /// few times 2^-23 * (1 + (mean * rstd)^2), until no digit is left.
  one_pass_variance,
  /// A block owns a row and keeps it in shared memory, so that memory sees each number once. May
  /// win for rows that row_in_registers cannot take. Takes what fits in shared memory: on an H100
  /// 58080 channels.
  row_in_shared_memory,
  /// A warp (up to 1024 channels) or a block keeps a row in registers, so that memory sees each
  /// number once. Wins, or nearly so, wherever it can be used. Takes at most 32 * BlockSize
  /// channels.
  row_in_registers
};

inline constexpr std::array layernorm_forward_variants{
    layernorm_forward_variant::automatic,         layernorm_forward_variant::thread_per_row,
    layernorm_forward_variant::three_kernels,     layernorm_forward_variant::warp_per_row,
    layernorm_forward_variant::one_pass_variance, layernorm_forward_variant::row_in_shared_memory,
    layernorm_forward_variant::row_in_registers};

constexpr const char* to_string(layernorm_forward_variant variant) {
  switch (variant) {
    case layernorm_forward_variant::automatic: return "automatic";
    case layernorm_forward_variant::thread_per_row: return "thread_per_row";
    case layernorm_forward_variant::three_kernels: return "three_kernels";
    case layernorm_forward_variant::warp_per_row: return "warp_per_row";
    case layernorm_forward_variant::one_pass_variance: return "one_pass_variance";
    case layernorm_forward_variant::row_in_shared_memory: return "row_in_shared_memory";
    case layernorm_forward_variant::row_in_registers: return "row_in_registers";
  }
  return "unknown";
}

/// Threads a block.
template <layernorm_forward_variant Variant>
inline constexpr int layernorm_forward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The rest of layernorm_forward, for arguments that were checked.
template <layernorm_forward_variant Variant, int BlockSize>
void launch_layernorm_forward_variant(const char* function,
                                      const layernorm_forward_arrays<layernorm_input>& a,
                                      row_shape shape, float epsilon, cudaStream_t stream) {
  using variant = layernorm_forward_variant;
  if constexpr (Variant == variant::thread_per_row) {
    launch_layernorm_forward_by_threads<BlockSize>(function, a, shape, epsilon, stream);
  } else if constexpr (Variant == variant::three_kernels) {
    launch_layernorm_forward_in_three<BlockSize>(function, a, shape, epsilon, stream);
  } else if constexpr (Variant == variant::one_pass_variance) {
    launch_layernorm_forward_one_pass<BlockSize>(function, a, shape, epsilon, stream);
  } else if constexpr (Variant == variant::row_in_shared_memory) {
    launch_layernorm_forward_shared<BlockSize>(function, to_string(Variant), a, shape, epsilon,
                                               stream);
  } else {
    launch_layernorm_forward<Variant, BlockSize>(function, a, shape, epsilon, stream);
  }
}

}  // namespace detail

/// Normalises every row; see the top of this file for the formula.
///
/// @param[out] out     (rows, C), overwritten; may alias `inp`
/// @param[out] mean    (rows), overwritten; may be null where no backward pass follows
/// @param[out] rstd    (rows), overwritten; may be null likewise
/// @param[in]  inp     (rows, C)
/// @param[in]  weight  (C)
/// @param[in]  bias    (C)
/// @param      epsilon added to the variance; GPT-2 uses 1e-5
///
/// Any alignment. Deterministic. Throws invalid_argument for rows < 0, channels < 1, a null array
/// or an epsilon that is negative or not finite; unsupported if `row_in_registers` or
/// `row_in_shared_memory` is named for longer rows than it takes, or `three_kernels` with a null
/// mean or rstd; cuda_error if a launch fails.
template <layernorm_forward_variant Variant = layernorm_forward_variant::automatic,
          int BlockSize = layernorm_forward_block_size<Variant>>
void layernorm_forward(float* out, float* mean, float* rstd, const float* inp, const float* weight,
                       const float* bias, row_shape shape, float epsilon, cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "layernorm_forward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::layernorm_forward";
  checks::require_shape(function, shape);
  checks::require_finite_at_least(function, "epsilon", epsilon, 0.0);
  if (shape.rows == 0) return;
  checks::require_pointer(function, "out", out);
  checks::require_pointer(function, "inp", inp);
  checks::require_pointer(function, "weight", weight);
  checks::require_pointer(function, "bias", bias);

  detail::launch_layernorm_forward_variant<Variant, BlockSize>(
      function, {out, mean, rstd, {inp}, weight, bias}, shape, epsilon, stream);
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class layernorm_backward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread owns a row. A warp adds up the terms of its 32 rows, and one atomic addition brings
  /// each sum to dweight or dbias. Wins nowhere: it shows what contiguous reads and sums on chip
  /// are worth. Not deterministic: warps add in the order in which they arrive. `automatic` never
  /// chooses it.
  thread_per_row,
  /// A block owns many rows and keeps its sums of dweight and dbias in shared memory; a second
  /// small kernel adds up the sums of all blocks. Wins nowhere: it shows what registers are worth.
  /// Two rows must fit in shared memory: on an H100 29040 channels.
  shared_partials,
  /// dinp: a warp owns a row. dweight and dbias: column sums in two stages. Reads dout and inp
  /// twice, the second time mostly from the L2 cache. Wins for rows that register_partials cannot
  /// take.
  warp_per_row,
  /// A warp (up to 1024 channels) or a block keeps a row in registers, so that memory sees each
  /// number once. Beside the row it keeps its sums of dweight and dbias over all its rows; a second
  /// small kernel adds those up. Wins wherever it can be used. Takes at most 32 * BlockSize
  /// channels.
  register_partials
};

inline constexpr std::array layernorm_backward_variants{
    layernorm_backward_variant::automatic, layernorm_backward_variant::thread_per_row,
    layernorm_backward_variant::shared_partials, layernorm_backward_variant::warp_per_row,
    layernorm_backward_variant::register_partials};

constexpr const char* to_string(layernorm_backward_variant variant) {
  switch (variant) {
    case layernorm_backward_variant::automatic: return "automatic";
    case layernorm_backward_variant::thread_per_row: return "thread_per_row";
    case layernorm_backward_variant::shared_partials: return "shared_partials";
    case layernorm_backward_variant::warp_per_row: return "warp_per_row";
    case layernorm_backward_variant::register_partials: return "register_partials";
  }
  return "unknown";
}

/// Threads a block.
template <layernorm_backward_variant Variant>
inline constexpr int layernorm_backward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN

/// Bytes of scratch that layernorm_backward needs for this shape, in any variant and block size.
inline std::size_t layernorm_backward_workspace_bytes(row_shape shape) {
  return detail::layernorm_backward_workspace_bytes("llmc::layernorm_backward_workspace_bytes",
                                                    shape, 2);
}

/// The gradients of layernorm_forward, with norm = (inp - mean) * rstd and dnorm = dout * weight:
///
///     dinp       = rstd * (dnorm - sum_c(dnorm) / C - norm * sum_c(dnorm * norm) / C)
///     dweight[c] = sum_rows dout * norm
///     dbias[c]   = sum_rows dout
///
/// @param[out]    dinp    (rows, C), overwritten whatever `mode` says; may alias `dout`
/// @param[in,out] dweight (C), overwritten or added to as `mode` says; 0 for no rows
/// @param[in,out] dbias   (C), likewise
/// @param[out]    scratch layernorm_backward_workspace_bytes(shape) bytes, aligned to 16; its
///                        contents are lost
/// @param[in]     dout    (rows, C)
/// @param[in]     inp     (rows, C), the input of the forward pass
/// @param[in]     weight  (C)
/// @param[in]     mean    (rows), from the forward pass
/// @param[in]     rstd    (rows), from the forward pass
///
/// Any alignment. Deterministic, except for `thread_per_row`: the bits depend on the arguments, on
/// whether the arrays are aligned to 16 bytes, and on Variant and BlockSize, not on the card.
/// Throws invalid_argument for rows < 0, channels < 1, a null array or a scratch that is null, too
/// small or not aligned; unsupported if `register_partials` or `shared_partials` is named for
/// longer rows than it takes; cuda_error if a launch fails.
template <layernorm_backward_variant Variant = layernorm_backward_variant::automatic,
          int BlockSize = layernorm_backward_block_size<Variant>>
void layernorm_backward(float* dinp, float* dweight, float* dbias, workspace scratch,
                        const float* dout, const float* inp, const float* weight, const float* mean,
                        const float* rstd, row_shape shape, accumulation mode,
                        cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "layernorm_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::layernorm_backward";
  const detail::layernorm_backward_arrays arrays{
      dinp,   dweight, dbias, static_cast<float*>(scratch.data), nullptr, dout, inp,
      weight, mean,    rstd};
  detail::check_layernorm_backward(function, "inp", arrays, scratch, shape, 2);
  if constexpr (Variant == layernorm_backward_variant::shared_partials) {
    detail::launch_layernorm_backward_shared<BlockSize>(function, to_string(Variant), arrays, shape,
                                                        mode, stream);
  } else {
    detail::launch_layernorm_backward<Variant, BlockSize>(function, arrays, shape, mode, stream);
  }
}

LLMC_NAMESPACE_END
