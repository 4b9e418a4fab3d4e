/// @file
/// Softmax, cross-entropy and the gradient of both, as the end of a language model needs them: in
/// one step, and in place, since the logits are the largest array that the model touches.
///
///     losses[row]    = log(sum_{c < V} exp(logits[row][c])) - logits[row][target]
///     logits[row][c] = (softmax(logits[row])[c] - (c == target)) * dloss(row)
///
/// Rows are Vp >= V apart; the padding columns [V, Vp) take no part.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/crossentropy/kernels.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/detail/row/scores.cuh>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

enum class classifier_forward_backward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread owns a row and passes over it three times: maximum, sum, gradient. Wins nowhere: the
  /// threads of a warp read a whole row apart.
  thread_per_row,
  /// Two kernels, a warp a row in each: the losses, then the gradient, which must find maximum and
  /// sum again. Wins nowhere: it shows what fusing saves.
  unfused,
  /// Both in one kernel: a warp owns a row and passes over it twice, maximum and sum together, then
  /// the gradient. Wins for vocabularies of up to a few hundred and thousands of rows.
  warp_per_row,
  /// The same by a block, by packs. The second pass goes from the end back, and the rows in flight
  /// fit the L2 cache. Wins for vocabularies of a thousand and more that row_on_chip cannot take.
  block_per_row,
  /// A block keeps its row in registers and shared memory, so that memory sees each number once.
  /// Wins for rows of 8192 columns and more, among them GPT-2's vocabulary. Takes rows that begin
  /// at 16-byte boundaries and fit: 53248 floats everywhere with 512 threads, 80000 with 256 on an
  /// H100.
  row_on_chip
};

inline constexpr std::array classifier_forward_backward_variants{
    classifier_forward_backward_variant::automatic,
    classifier_forward_backward_variant::thread_per_row,
    classifier_forward_backward_variant::unfused,
    classifier_forward_backward_variant::warp_per_row,
    classifier_forward_backward_variant::block_per_row,
    classifier_forward_backward_variant::row_on_chip};

constexpr const char* to_string(classifier_forward_backward_variant variant) {
  switch (variant) {
    case classifier_forward_backward_variant::automatic: return "automatic";
    case classifier_forward_backward_variant::thread_per_row: return "thread_per_row";
    case classifier_forward_backward_variant::unfused: return "unfused";
    case classifier_forward_backward_variant::warp_per_row: return "warp_per_row";
    case classifier_forward_backward_variant::block_per_row: return "block_per_row";
    case classifier_forward_backward_variant::row_on_chip: return "row_on_chip";
  }
  return "unknown";
}

/// Threads a block, the fastest on an H100 at GPT-2's vocabulary. block_per_row has many threads
/// for a row, so that few rows are in flight and the cache holds them. Where a thread owns a row,
/// small blocks spread the rows over more multiprocessors.
template <classifier_forward_backward_variant Variant>
inline constexpr int classifier_forward_backward_block_size =
    Variant == classifier_forward_backward_variant::thread_per_row  ? 32
    : Variant == classifier_forward_backward_variant::block_per_row ? 1024
    : Variant == classifier_forward_backward_variant::automatic ||
            Variant == classifier_forward_backward_variant::row_on_chip
        ? 512
        : 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN

/// The loss of every row, and its gradient in place of the logits; see the top of this file for the
/// formulas.
///
/// @param[in,out] logits       (rows, Vp): the logits, overwritten by the gradient, with 0 in the
///                             padding
/// @param[out]    losses       (rows), overwritten
/// @param[in,out] out_of_range one number, to which the targets that are neither in [0, V) nor
///                             `ignored_target` are added; may be null
/// @param[in]     targets      (rows)
/// @param         dlosses      the gradients of the rows' losses: {1.0f / rows} for their mean
///
/// A row whose target is `ignored_target` or out of range has loss 0 and gradient 0, whatever its
/// logits. A target whose logit is -infinity costs +infinity; a row without any finite logit, or
/// with a +infinity or a NaN among its logits, becomes NaN, and so does its loss. Any alignment.
/// Deterministic. Throws invalid_argument for rows < 0, V < 1, Vp < V or a null array; unsupported
/// if `row_on_chip` is named for rows that it cannot take; cuda_error if the launch fails.
template <
    classifier_forward_backward_variant Variant = classifier_forward_backward_variant::automatic,
    int BlockSize = classifier_forward_backward_block_size<Variant>>
void classifier_forward_backward(float* logits, float* losses, std::uint64_t* out_of_range,
                                 const std::int32_t* targets, classifier_shape shape,
                                 loss_gradient dlosses, cudaStream_t stream) {
  static_assert(
      detail::is_block_size(BlockSize),
      "classifier_forward_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::classifier_forward_backward";
  checks::require_shape(function, shape);
  if (shape.rows == 0) return;
  checks::require_pointer(function, "logits", logits);
  checks::require_pointer(function, "losses", losses);
  checks::require_pointer(function, "targets", targets);

  const auto launch = [&](auto scores, std::size_t shared_bytes) {
    using row_scores = decltype(scores);
    detail::launch_over_rows<row_scores>(function, shape.rows, BlockSize, shared_bytes, stream,
                                         detail::classifier_kernel<row_scores>, logits, losses,
                                         out_of_range, targets, shape, dlosses);
  };
  using variant = classifier_forward_backward_variant;
  if constexpr (Variant == variant::unfused) {
    using scores = detail::warp_online;
    detail::launch_over_rows<scores>(function, shape.rows, BlockSize, 0, stream,
                                     detail::crossentropy_forward_kernel<scores>, losses,
                                     out_of_range, logits, targets, shape);
    detail::launch_over_rows<scores>(function, shape.rows, BlockSize, 0, stream,
                                     detail::crossentropy_backward_kernel<scores>, logits, dlosses,
                                     logits, targets, shape);
  } else if constexpr (Variant == variant::thread_per_row || Variant == variant::warp_per_row) {
    launch(detail::crossentropy_rung<Variant>{}, 0);
  } else {
    detail::with_block_scores<Variant, BlockSize, false>(
        function, detail::is_16_byte_accessible(shape.padded_vocabulary, logits), shape.vocabulary,
        0, launch);
  }
}

LLMC_NAMESPACE_END
