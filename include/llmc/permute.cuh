/// @file
/// The two layouts of attention's vectors. A linear layer leaves the heads of one position side by
/// side; batched products want the positions of one head side by side:
///
///     by position  (B, T, parts, NH, HS)      what a linear layer reads and writes
///     by head      (parts, B, NH, T, HS)      what products of each head want
///
/// With 3 parts these are queries, keys and values; with 1, the result of attention. The gradient
/// of either map is the other one, so the four directions of attention are
///
///     forward    permute_heads(heads, qkv, shape, 3)       unpermute_heads(out, mean, shape, 1)
///     backward   unpermute_heads(dqkv, dheads, shape, 3)   permute_heads(dmean, dout, shape, 1)
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstdint>

#include <llmc/detail/attention/heads.cuh>
#include <llmc/detail/attention/parts.hpp>
#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

enum class permute_heads_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread moves one float. Within a head, neighbouring threads read and write neighbouring
  /// floats. But the four divisions by which a thread finds its place take longer than the move.
  element_per_thread,
  /// A thread moves 16 bytes for the same four divisions: a quarter of the instructions. Where the
  /// head size or the alignment does not allow that, this is element_per_thread.
  pack_per_thread,
  /// A block moves all numbers of one position. It finds batch entry and position once, and each
  /// thread is left with two divisions of 32 bits. 16 bytes a thread where alignment allows. Wins
  /// where a position has a few hundred numbers or more; with fewer, threads idle. Takes up to
  /// 2^31 - 1 floats a position.
  block_per_position
};

inline constexpr std::array permute_heads_variants{
    permute_heads_variant::automatic, permute_heads_variant::element_per_thread,
    permute_heads_variant::pack_per_thread, permute_heads_variant::block_per_position};

constexpr const char* to_string(permute_heads_variant variant) {
  switch (variant) {
    case permute_heads_variant::automatic: return "automatic";
    case permute_heads_variant::element_per_thread: return "element_per_thread";
    case permute_heads_variant::pack_per_thread: return "pack_per_thread";
    case permute_heads_variant::block_per_position: return "block_per_position";
  }
  return "unknown";
}

/// Threads a block.
template <permute_heads_variant Variant>
inline constexpr int permute_heads_block_size = 256;

/// Both directions are one algorithm.
using unpermute_heads_variant = permute_heads_variant;
inline constexpr std::array unpermute_heads_variants = permute_heads_variants;
template <unpermute_heads_variant Variant>
inline constexpr int unpermute_heads_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The work of both launchers.
template <head_layout To, permute_heads_variant Variant, int BlockSize>
void launch_move_heads(const char* function, float* out, const float* inp, attention_shape shape,
                       int parts, cudaStream_t stream) {
  using variant = permute_heads_variant;
  if (checks::require_parts(function, shape, parts) == 0) return;
  checks::require_pointer(function, "out", out);
  checks::require_pointer(function, "inp", inp);

  if constexpr (Variant == variant::element_per_thread) {
    move_heads_by_threads<To, 1, BlockSize>(function, out, inp, shape, parts, stream);
  } else if constexpr (Variant == variant::pack_per_thread) {
    move_heads<To, BlockSize>(function, out, inp, shape, parts, stream);
  } else if constexpr (Variant == variant::block_per_position) {
    require_countable_position(function, to_string(Variant), shape, parts);
    move_heads_by_blocks<To>(function, out, inp, shape, parts, BlockSize, stream);
  } else {
    const std::int64_t floats = position_floats(shape, parts);
    if (floats >= BlockSize && floats <= most_position_floats) {
      move_heads_by_blocks<To>(function, out, inp, shape, parts, BlockSize, stream);
    } else {
      move_heads<To, BlockSize>(function, out, inp, shape, parts, stream);
    }
  }
}

}  // namespace detail

/// From the layout by position to that by head; see the top of this file. It is the gradient of
/// unpermute_heads.
///
/// @param[out] out   (parts, B, NH, T, HS), overwritten; must not alias `inp`
/// @param[in]  inp   (B, T, parts, NH, HS)
/// @param      parts how many tensors lie side by side at each position: 3 for queries, keys and
///                   values
///
/// Any alignment. Deterministic: every bit is copied. Throws invalid_argument for a negative
/// extent, NH < 1, HS < 1, parts < 1 or a null array; unsupported if `block_per_position` is named
/// for more floats a position than it takes; cuda_error if the launch fails.
template <permute_heads_variant Variant = permute_heads_variant::automatic,
          int BlockSize = permute_heads_block_size<Variant>>
void permute_heads(float* out, const float* inp, attention_shape shape, int parts,
                   cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "permute_heads: BlockSize must be a multiple of 32 between 32 and 1024");
  detail::launch_move_heads<detail::head_layout::by_head, Variant, BlockSize>(
      "llmc::permute_heads", out, inp, shape, parts, stream);
}

/// From the layout by head to that by position: the inverse of permute_heads, and its gradient.
///
/// @param[out] out   (B, T, parts, NH, HS), overwritten; must not alias `inp`
/// @param[in]  inp   (parts, B, NH, T, HS)
/// @param      parts as in permute_heads
///
/// Any alignment. Deterministic. Throws as permute_heads does.
template <unpermute_heads_variant Variant = unpermute_heads_variant::automatic,
          int BlockSize = unpermute_heads_block_size<Variant>>
void unpermute_heads(float* out, const float* inp, attention_shape shape, int parts,
                     cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "unpermute_heads: BlockSize must be a multiple of 32 between 32 and 1024");
  detail::launch_move_heads<detail::head_layout::by_position, Variant, BlockSize>(
      "llmc::unpermute_heads", out, inp, shape, parts, stream);
}

LLMC_NAMESPACE_END
