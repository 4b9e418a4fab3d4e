/// @file
/// Token and position embedding:
///
///     out[b][t] = wte[tokens[b][t]] + wpe[t]
///
/// A token outside [0, V) reads nothing and contributes nothing: its row of `out` is wpe[t].
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/encoder/ladder.cuh>
#include <llmc/detail/encoder/token_gradient.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/counter.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/group.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/device/row/row_in_registers.cuh>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class encoder_forward_variant {
  /// The best for this device and shape.
  automatic,
  /// The naive form: a thread owns a position and walks along its channels. Neighbouring threads
  /// are a row apart, so each of a warp's accesses touches 32 sectors of memory for 4 bytes each.
  /// Never wins. Deterministic, as all of these are.
  thread_per_row,
  /// A thread owns a number of the result, so a warp's accesses are contiguous. Each finds its row
  /// by a division and reads its token, all for one number. Not meant to win: it shows what the
  /// order of the accesses is worth.
  element_per_thread,
  /// The same for 4 numbers in one access, or 1 where alignment or C do not allow 4: a quarter of
  /// the threads, divisions and accesses. It has more threads than warp_per_row, which pays only
  /// for a few hundred positions or fewer.
  pack_per_thread,
  /// A warp owns a position and reads both rows before it adds. From a few thousand positions on,
  /// only memory limits it.
  warp_per_row
};

inline constexpr std::array encoder_forward_variants{
    encoder_forward_variant::automatic, encoder_forward_variant::thread_per_row,
    encoder_forward_variant::element_per_thread, encoder_forward_variant::pack_per_thread,
    encoder_forward_variant::warp_per_row};

constexpr const char* to_string(encoder_forward_variant variant) {
  switch (variant) {
    case encoder_forward_variant::automatic: return "automatic";
    case encoder_forward_variant::thread_per_row: return "thread_per_row";
    case encoder_forward_variant::element_per_thread: return "element_per_thread";
    case encoder_forward_variant::pack_per_thread: return "pack_per_thread";
    case encoder_forward_variant::warp_per_row: return "warp_per_row";
  }
  return "unknown";
}

/// Threads a block.
template <encoder_forward_variant Variant>
inline constexpr int encoder_forward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace device {

/// The embedding of one position, by a warp: 768 channels at a time in registers, so that all loads
/// are on their way before the first is needed. Without a token the result is the row of wpe.
template <int Width>
__device__ void encoder_row(float* out, const float* wte, const float* wpe, std::int32_t token,
                            bool has_token, std::int64_t channels) {
  using registers = row_in_registers<whole_warp<>, Width, 24>;
  constexpr std::int64_t most = 24 * warp_size;
  for (std::int64_t first = 0; first < channels; first += most) {
    const int count = static_cast<int>(channels - first < most ? channels - first : most);
    registers sum(count), row(count);
    sum.load(wpe + first);  // needs no token, so it goes first
    if (has_token) row.load(wte + token * channels + first);
    sum.add(row);
    sum.store(out + first);
  }
}

}  // namespace device

namespace detail {

template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    encoder_forward_kernel(float* out, std::uint64_t* out_of_range, const std::int32_t* tokens,
                           const float* wte, const float* wpe, encoder_shape shape) {
  const std::int64_t C = shape.channels;
  for (std::int64_t row = device::thread_in_grid() / device::warp_size;
       row < shape.batch * shape.sequence; row += device::threads_in_grid() / device::warp_size) {
    const std::int32_t token = tokens[row];
    const bool in_range = token >= 0 && token < shape.vocabulary;
    device::encoder_row<Width>(out + row * C, wte, wpe + row % shape.sequence * C, token, in_range,
                               C);
    if (!in_range && threadIdx.x % device::warp_size == 0) device::increment(out_of_range);
  }
}

/// All of encoder_forward, for arguments that were checked and at least one position.
template <encoder_forward_variant Variant, int BlockSize>
void launch_encoder_forward(const char* function, float* out, std::uint64_t* out_of_range,
                            const std::int32_t* tokens, const float* wte, const float* wpe,
                            encoder_shape shape, cudaStream_t stream) {
  const std::int64_t rows = shape.batch * shape.sequence;
  const auto launch_threads = [&](auto kernel, std::int64_t threads) {
    launch({function, ceil_div(threads, BlockSize), BlockSize, 0, stream}, kernel, out,
           out_of_range, tokens, wte, wpe, shape);
  };
  if constexpr (Variant == encoder_forward_variant::thread_per_row) {
    launch_threads(encoder_forward_rows_kernel<1024>, rows);
  } else if constexpr (Variant == encoder_forward_variant::element_per_thread) {
    launch_threads(encoder_forward_packs_kernel<1>, rows * shape.channels);
  } else {
    const bool wide = is_16_byte_accessible(shape.channels, out, wte, wpe);
    with_access_width(wide, [&](auto width) {
      if constexpr (Variant == encoder_forward_variant::pack_per_thread) {
        launch_threads(encoder_forward_packs_kernel<width()>, rows * (shape.channels / width()));
      } else {
        launch_threads(encoder_forward_kernel<width(), BlockSize>, rows * device::warp_size);
      }
    });
  }
}

}  // namespace detail

/// The embedding of every position; see the top of this file for the formula.
///
/// @param[out]    out          (B, T, C), overwritten
/// @param[in,out] out_of_range one number, to which the tokens outside [0, V) are added; may be
///                             null
/// @param[in]     tokens       (B, T)
/// @param[in]     wte          (V, C)
/// @param[in]     wpe          (T, C) or longer
///
/// Any alignment. Deterministic. Throws invalid_argument for a negative B or T, C < 1, V < 1 or a
/// null array; cuda_error if the launch fails.
template <encoder_forward_variant Variant = encoder_forward_variant::automatic,
          int BlockSize = encoder_forward_block_size<Variant>>
void encoder_forward(float* out, std::uint64_t* out_of_range, const std::int32_t* tokens,
                     const float* wte, const float* wpe, encoder_shape shape, cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "encoder_forward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::encoder_forward";
  const std::int64_t rows = checks::require_shape(function, shape);
  if (rows == 0) return;
  checks::require_pointer(function, "out", out);
  checks::require_pointer(function, "tokens", tokens);
  checks::require_pointer(function, "wte", wte);
  checks::require_pointer(function, "wpe", wpe);

  detail::launch_encoder_forward<Variant, BlockSize>(function, out, out_of_range, tokens, wte, wpe,
                                                     shape, stream);
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class encoder_backward_variant {
  /// The best for this device and shape.
  automatic,
  /// The naive form: a thread owns an element of dout and adds it to both tables by atomic
  /// additions. Not deterministic: threads add in the order in which they arrive. The more often a
  /// token occurs, the longer its additions wait for each other. `automatic` never chooses it.
  atomics,
  /// A thread owns a channel of both tables and walks over all positions. No two threads meet, so
  /// plain additions are enough and their order is fixed. But only C threads have work, and each
  /// waits for one addition before it starts the next. Never wins. Deterministic.
  thread_per_channel,
  /// dwpe: a thread owns an element and adds over the batch in order. dwte: the positions are
  /// sorted by token (up to 8192 in the launch that makes dwpe) and cut into pieces of equal
  /// length, and a warp sums a piece, whatever tokens it holds. So one token everywhere is as fast
  /// as all different ones, and every sum has a fixed order.
  sorted_pieces
};

inline constexpr std::array encoder_backward_variants{
    encoder_backward_variant::automatic, encoder_backward_variant::atomics,
    encoder_backward_variant::thread_per_channel, encoder_backward_variant::sorted_pieces};

constexpr const char* to_string(encoder_backward_variant variant) {
  switch (variant) {
    case encoder_backward_variant::automatic: return "automatic";
    case encoder_backward_variant::atomics: return "atomics";
    case encoder_backward_variant::thread_per_channel: return "thread_per_channel";
    case encoder_backward_variant::sorted_pieces: return "sorted_pieces";
  }
  return "unknown";
}

/// Threads a block: sorted_pieces is a seventh faster with 32 than with 256 on an H100.
template <encoder_backward_variant Variant>
inline constexpr int encoder_backward_block_size =
    Variant == encoder_backward_variant::automatic ||
            Variant == encoder_backward_variant::sorted_pieces
        ? 32
        : 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace device {

/// The gradient of `Width` elements of wpe: the sum over the batch of their gradients, which lie
/// `stride` apart. Added in order, and in double since the batch may be long.
template <int Width>
__device__ pack<Width> encoder_position_gradient(const float* dout, std::int64_t batch,
                                                 std::int64_t stride) {
  double total[Width] = {};
#pragma unroll 8
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto d = load<Width>(dout + b * stride);
#pragma unroll
    for (int i = 0; i < Width; ++i) total[i] += d[i];
  }
  pack<Width> sum;
#pragma unroll
  for (int i = 0; i < Width; ++i) sum[i] = static_cast<float>(total[i]);
  return sum;
}

}  // namespace device

namespace detail {

/// The first blocks find the tokens' places, the others sum dwpe. Both are in one launch, because
/// the first compute while the others wait for memory.
template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    encoder_position_gradient_kernel(float* dwpe, const float* dout, encoder_shape shape,
                                     accumulation mode, token_counting counting,
                                     std::int64_t counting_blocks) {
  device::allow_next_kernel();
  if (blockIdx.x < counting_blocks) {
    const std::int64_t warp = device::thread_in_grid() / device::warp_size;
    const std::int64_t first = warp * token_counting::group;
    if (first < counting.count) counting.place_group(static_cast<int>(first));
    return;
  }
  const std::int64_t count = shape.sequence * shape.channels;
  device::for_each_pack<Width>(
      count, device::thread_in_grid() - counting_blocks * BlockSize,
      device::threads_in_grid() - counting_blocks * BlockSize, [&](auto width, std::int64_t i) {
        device::store_or_add(
            dwpe + i, device::encoder_position_gradient<width()>(dout + i, shape.batch, count),
            mode == accumulation::add);
      });
}

/// encoder_backward by `sorted_pieces`, for arguments that were checked.
template <int BlockSize>
void launch_encoder_backward_sorted(const char* function, float* dwte, float* dwpe,
                                    const token_gradient_workspace& space,
                                    const std::int32_t* tokens, const float* dout,
                                    encoder_shape shape, accumulation dwte_mode,
                                    accumulation dwpe_mode, cudaStream_t stream) {
  clear_unless_added_to(function, dwte, shape.vocabulary, shape.channels, dwte_mode, stream);
  const std::int64_t rows = shape.batch * shape.sequence;
  sorted_tokens sorted{};
  token_counting counting{};
  if (rows > most_counted_tokens) {
    sorted = radix_sort_by_token<BlockSize>(function, space, tokens, shape, stream);
  } else if (rows > 0) {
    sorted = {space.tokens[0], space.positions[0], rows, token_piece_length(rows),
              end_token(shape)};
    counting = {space.tokens[0], space.positions[0], tokens, static_cast<int>(rows),
                end_token(shape)};
  }

  const std::int64_t count = shape.sequence * shape.channels;
  const std::int64_t counting_blocks = counting.blocks(BlockSize);
  with_access_width(is_16_byte_accessible(shape.channels, dwpe, dout), [&](auto width) {
    const std::int64_t blocks = counting_blocks + ceil_div(count, BlockSize * width());
    launch({function, blocks, BlockSize, 0, stream},
           encoder_position_gradient_kernel<width(), BlockSize>, dwpe, dout, shape, dwpe_mode,
           counting, counting_blocks);
  });
  if (rows > 0) {
    token_gradient<BlockSize>(function, dwte, space.partials, sorted, dout, shape, dwte_mode,
                              stream);
  }
}

}  // namespace detail

/// Bytes of scratch that encoder_backward needs for this shape, whatever the variant. Beyond 8192
/// positions it asks CUB, which needs a current device: throws cuda_error without one.
inline std::size_t encoder_backward_workspace_bytes(encoder_shape shape) {
  constexpr const char* function = "llmc::encoder_backward_workspace_bytes";
  checks::require_shape(function, shape);
  return detail::cut_token_gradient_workspace(function, nullptr, shape).bytes;
}

/// The gradients of encoder_forward:
///
///     dwte[v] = sum of dout[b][t] over the positions where tokens[b][t] == v
///     dwpe[t] = sum_b dout[b][t]
///
/// @param[in,out] dwte      (V, C), overwritten or added to as `dwte_mode` says; when added to,
///                          only the rows of tokens that occur are touched
/// @param[in,out] dwpe      (T, C), overwritten or added to as `dwpe_mode` says; rows from T on, if
///                          the table is longer, are not touched
/// @param[out]    scratch   encoder_backward_workspace_bytes(shape) bytes, aligned to 16; its
///                          contents are lost
/// @param[in]     tokens    (B, T); tokens outside [0, V) contribute nothing to dwte
/// @param[in]     dout      (B, T, C)
///
/// Each table has a mode of its own: GPT-2's last layer shares wte, so that layer's part of dwte
/// may be there already, while dwpe belongs to this layer alone.
///
/// Any alignment of the arrays. Deterministic, except for `atomics`, whose last bits differ from
/// run to run. Every variant asks for the scratch, though only `sorted_pieces` uses it. Throws
/// invalid_argument for a negative B or T, C < 1, V < 1, a null array or a scratch that is too
/// small or misaligned; cuda_error if a launch fails.
///
/// With more than 8192 positions on a host thread's own default stream (cudaStreamPerThread, or 0
/// in code compiled for such streams), `sorted_pieces` clears an earlier error of yours.
template <encoder_backward_variant Variant = encoder_backward_variant::automatic,
          int BlockSize = encoder_backward_block_size<Variant>>
void encoder_backward(float* dwte, float* dwpe, workspace scratch, const std::int32_t* tokens,
                      const float* dout, encoder_shape shape, accumulation dwte_mode,
                      accumulation dwpe_mode, cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "encoder_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::encoder_backward";
  const std::int64_t rows = checks::require_shape(function, shape);
  checks::require_pointer(function, "dwte", dwte);
  if (shape.sequence > 0) checks::require_pointer(function, "dwpe", dwpe);
  if (rows > 0) {
    checks::require_pointer(function, "tokens", tokens);
    checks::require_pointer(function, "dout", dout);
  }
  const auto space = detail::cut_token_gradient_workspace(function, scratch.data, shape);
  checks::require_workspace(function, scratch, space.bytes);

  const auto launch_adding = [&](auto kernel, std::int64_t threads) {
    detail::launch_encoder_backward_adding(function, kernel, threads, BlockSize, dwte, dwpe, tokens,
                                           dout, shape, dwte_mode, dwpe_mode, stream);
  };
  if constexpr (Variant == encoder_backward_variant::atomics) {
    launch_adding(detail::encoder_backward_atomics_kernel<1024>, rows * shape.channels);
  } else if constexpr (Variant == encoder_backward_variant::thread_per_channel) {
    launch_adding(detail::encoder_backward_channels_kernel<1024>, shape.channels);
  } else {
    detail::launch_encoder_backward_sorted<BlockSize>(function, dwte, dwpe, space, tokens, dout,
                                                      shape, dwte_mode, dwpe_mode, stream);
  }
}

LLMC_NAMESPACE_END
