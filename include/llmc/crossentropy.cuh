/// @file
/// Cross-entropy of logits against one target column a row:
///
///     losses[row] = log(sum_{c < V} exp(logits[row][c])) - logits[row][target]
///
/// Rows are Vp >= V apart; the padding columns [V, Vp) take no part. A row whose target is
/// `ignored_target` has loss and gradient 0. A row with any other target outside [0, V) has loss
/// and gradient 0, too, and its target is counted.
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

// ---- forward ----

LLMC_TYPES_BEGIN

enum class crossentropy_forward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread owns a row and passes over it twice: maximum, sum. Wins nowhere: the threads of a
  /// warp read a whole row apart.
  thread_per_row,
  /// A warp owns a row and reads it once, maximum and sum together. Wins for vocabularies of up to
  /// a few hundred and thousands of rows.
  warp_per_row,
  /// The same by a block, four packs at a time. Wins for vocabularies of a thousand and more;
  /// small ones leave most of its threads idle.
  block_per_row
};

inline constexpr std::array crossentropy_forward_variants{
    crossentropy_forward_variant::automatic, crossentropy_forward_variant::thread_per_row,
    crossentropy_forward_variant::warp_per_row, crossentropy_forward_variant::block_per_row};

constexpr const char* to_string(crossentropy_forward_variant variant) {
  switch (variant) {
    case crossentropy_forward_variant::automatic: return "automatic";
    case crossentropy_forward_variant::thread_per_row: return "thread_per_row";
    case crossentropy_forward_variant::warp_per_row: return "warp_per_row";
    case crossentropy_forward_variant::block_per_row: return "block_per_row";
  }
  return "unknown";
}

/// Threads a block, the fastest on an H100 at GPT-2's vocabulary. Where a thread owns a row, small
/// blocks spread the rows over more multiprocessors.
template <crossentropy_forward_variant Variant>
inline constexpr int crossentropy_forward_block_size =
    Variant == crossentropy_forward_variant::thread_per_row ? 32
    : Variant == crossentropy_forward_variant::warp_per_row ? 256
                                                            : 512;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN

/// The cross-entropy of every row; see the top of this file for the formula.
///
/// @param[out]    losses       (rows), overwritten
/// @param[in,out] out_of_range one number, to which the targets that are neither in [0, V) nor
///                             `ignored_target` are added; may be null
/// @param[in]     logits       (rows, Vp)
/// @param[in]     targets      (rows)
///
/// A target whose logit is -infinity costs +infinity; a row without any finite logit, or with a
/// +infinity or a NaN among its logits, has loss NaN. Any alignment. Deterministic. Throws
/// invalid_argument for rows < 0, V < 1, Vp < V or a null array; cuda_error if the launch fails.
template <crossentropy_forward_variant Variant = crossentropy_forward_variant::automatic,
          int BlockSize = crossentropy_forward_block_size<Variant>>
void crossentropy_forward(float* losses, std::uint64_t* out_of_range, const float* logits,
                          const std::int32_t* targets, classifier_shape shape,
                          cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "crossentropy_forward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::crossentropy_forward";
  checks::require_shape(function, shape);
  if (shape.rows == 0) return;
  checks::require_pointer(function, "losses", losses);
  checks::require_pointer(function, "logits", logits);
  checks::require_pointer(function, "targets", targets);

  const auto launch = [&](auto scores, std::size_t shared_bytes) {
    using row_scores = decltype(scores);
    detail::launch_over_rows<row_scores>(function, shape.rows, BlockSize, shared_bytes, stream,
                                         detail::crossentropy_forward_kernel<row_scores>, losses,
                                         out_of_range, logits, targets, shape);
  };
  using variant = crossentropy_forward_variant;
  if constexpr (Variant == variant::thread_per_row || Variant == variant::warp_per_row) {
    launch(detail::crossentropy_rung<Variant>{}, 0);
  } else {
    detail::with_block_scores<variant::block_per_row, BlockSize, false>(
        function, detail::is_16_byte_accessible(shape.padded_vocabulary, logits), shape.vocabulary,
        0, launch);
  }
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class crossentropy_backward_variant {
  /// The best for this device and shape.
  automatic,
  /// Two kernels: in the first a thread writes the probabilities of a row, in the second a thread
  /// turns one of them into the gradient. Wins nowhere: the second alone moves as much as
  /// row_on_chip.
  thread_per_element,
  /// One kernel, in which a thread owns a row and passes over it three times: maximum, sum,
  /// gradient. Wins nowhere: the threads of a warp read a whole row apart.
  thread_per_row,
  /// A warp owns a row and passes over it twice: maximum and sum together, then the gradient. Wins
  /// for vocabularies of up to a few hundred and thousands of rows.
  warp_per_row,
  /// The same by a block, by packs. The second pass goes from the end back, since the cache still
  /// holds the end. Wins for vocabularies of a thousand and more that row_on_chip cannot take.
  block_per_row,
  /// A block keeps its row in registers and shared memory, so that memory sees each number once.
  /// Wins for rows of 8192 columns and more, among them GPT-2's vocabulary. Takes rows that begin
  /// at 16-byte boundaries and fit: 53248 floats everywhere with 512 threads, 80000 with 256 on an
  /// H100.
  row_on_chip
};

inline constexpr std::array crossentropy_backward_variants{
    crossentropy_backward_variant::automatic,
    crossentropy_backward_variant::thread_per_element,
    crossentropy_backward_variant::thread_per_row,
    crossentropy_backward_variant::warp_per_row,
    crossentropy_backward_variant::block_per_row,
    crossentropy_backward_variant::row_on_chip};

constexpr const char* to_string(crossentropy_backward_variant variant) {
  switch (variant) {
    case crossentropy_backward_variant::automatic: return "automatic";
    case crossentropy_backward_variant::thread_per_element: return "thread_per_element";
    case crossentropy_backward_variant::thread_per_row: return "thread_per_row";
    case crossentropy_backward_variant::warp_per_row: return "warp_per_row";
    case crossentropy_backward_variant::block_per_row: return "block_per_row";
    case crossentropy_backward_variant::row_on_chip: return "row_on_chip";
  }
  return "unknown";
}

/// Threads a block, the fastest on an H100 at GPT-2's vocabulary. Where a thread owns a row, small
/// blocks spread the rows over more multiprocessors.
template <crossentropy_backward_variant Variant>
inline constexpr int crossentropy_backward_block_size =
    Variant == crossentropy_backward_variant::thread_per_element ||
            Variant == crossentropy_backward_variant::thread_per_row
        ? 32
    : Variant == crossentropy_backward_variant::warp_per_row ? 256
                                                             : 512;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN

/// The gradient of crossentropy_forward:
///
///     dlogits[row][c] = (softmax(logits[row])[c] - (c == target)) * dloss(row)
///
/// @param[out] dlogits (rows, Vp), overwritten, with 0 in the padding; may alias `logits`
/// @param[in]  logits  (rows, Vp)
/// @param[in]  targets (rows)
/// @param      dlosses the gradients of the rows' losses, one for all or one for each row; see
///                     loss_gradient
///
/// A row whose target is ignored or out of range becomes 0, whatever its logits; a row that has no
/// softmax (see crossentropy_forward) becomes NaN. Any alignment. Deterministic. Throws
/// invalid_argument for rows < 0, V < 1, Vp < V or a null array; unsupported if `row_on_chip` is
/// named for rows that it cannot take; cuda_error if the launch fails.
template <crossentropy_backward_variant Variant = crossentropy_backward_variant::automatic,
          int BlockSize = crossentropy_backward_block_size<Variant>>
void crossentropy_backward(float* dlogits, const float* logits, const std::int32_t* targets,
                           classifier_shape shape, loss_gradient dlosses, cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "crossentropy_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::crossentropy_backward";
  checks::require_shape(function, shape);
  if (shape.rows == 0) return;
  checks::require_pointer(function, "dlogits", dlogits);
  checks::require_pointer(function, "logits", logits);
  checks::require_pointer(function, "targets", targets);

  const auto launch = [&](auto scores, std::size_t shared_bytes) {
    using row_scores = decltype(scores);
    detail::launch_over_rows<row_scores>(function, shape.rows, BlockSize, shared_bytes, stream,
                                         detail::crossentropy_backward_kernel<row_scores>, dlogits,
                                         dlosses, logits, targets, shape);
  };
  using variant = crossentropy_backward_variant;
  if constexpr (Variant == variant::thread_per_element) {
    using scores = detail::thread_in_passes;
    detail::launch_over_rows<scores>(function, shape.rows, BlockSize, 0, stream,
                                     detail::crossentropy_probabilities_kernel<scores>, dlogits,
                                     logits, shape);
    const std::int64_t blocks = detail::ceil_div(shape.rows * shape.padded_vocabulary, BlockSize);
    detail::launch({function, blocks, BlockSize, 0, stream},
                   detail::crossentropy_elements_kernel<1024>, dlogits, dlosses, targets, shape);
  } else if constexpr (Variant == variant::thread_per_row || Variant == variant::warp_per_row) {
    launch(detail::crossentropy_rung<Variant>{}, 0);
  } else {
    detail::with_block_scores<Variant, BlockSize, false>(
        function, detail::is_16_byte_accessible(shape.padded_vocabulary, dlogits, logits),
        shape.vocabulary, 0, launch);
  }
}

LLMC_NAMESPACE_END
