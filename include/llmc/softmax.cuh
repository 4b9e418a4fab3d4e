/// @file
/// Softmax over the channels of each row:
///
///     out[c] = exp(inp[c] - max(inp)) / sum_k exp(inp[k] - max(inp))
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/detail/row/scores.cuh>
#include <llmc/device/row/row_on_chip.cuh>
#include <llmc/device/row/softmax.cuh>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class softmax_forward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread owns a row and passes over it three times: maximum, sum, result. Wins nowhere: the
  /// threads of a warp read a whole row apart.
  thread_per_row,
  /// A thread finds maximum and sum in one pass (Milakov and Gimelshein, 2018): the sum is rescaled
  /// when the maximum grows. Wins nowhere; online_warp_per_row and block_per_row use the idea.
  online_thread_per_row,
  /// A block owns a row, in three passes. Wins nowhere: each pass waits at barriers, and short rows
  /// leave most threads idle.
  block_reduction,
  /// A warp owns a row, in three passes, and needs no barrier. Wins for rows of up to a few hundred
  /// channels, if there are thousands of them.
  warp_per_row,
  /// The online sum by a warp, four loads at a time: two passes. Wins over warp_per_row where rows
  /// do not stay in the cache between passes.
  online_warp_per_row,
  /// The online sum by a block, by packs. The result is written from the end back, since the cache
  /// still holds the end. Wins for rows of a thousand channels and more that row_on_chip cannot
  /// take.
  block_per_row,
  /// A block keeps its row in registers and shared memory, so that memory sees each number once.
  /// Wins for rows of 8192 channels and more, among them GPT-2's vocabulary. Takes rows that begin
  /// at 16-byte boundaries and fit: 53248 floats everywhere with 512 threads, 80000 with 256 on an
  /// H100.
  row_on_chip
};

inline constexpr std::array softmax_forward_variants{softmax_forward_variant::automatic,
                                                     softmax_forward_variant::thread_per_row,
                                                     softmax_forward_variant::online_thread_per_row,
                                                     softmax_forward_variant::block_reduction,
                                                     softmax_forward_variant::warp_per_row,
                                                     softmax_forward_variant::online_warp_per_row,
                                                     softmax_forward_variant::block_per_row,
                                                     softmax_forward_variant::row_on_chip};

constexpr const char* to_string(softmax_forward_variant variant) {
  switch (variant) {
    case softmax_forward_variant::automatic: return "automatic";
    case softmax_forward_variant::thread_per_row: return "thread_per_row";
    case softmax_forward_variant::online_thread_per_row: return "online_thread_per_row";
    case softmax_forward_variant::block_reduction: return "block_reduction";
    case softmax_forward_variant::warp_per_row: return "warp_per_row";
    case softmax_forward_variant::online_warp_per_row: return "online_warp_per_row";
    case softmax_forward_variant::block_per_row: return "block_per_row";
    case softmax_forward_variant::row_on_chip: return "row_on_chip";
  }
  return "unknown";
}

/// Threads a block, the fastest on an H100 at GPT-2's vocabulary. Where a thread owns a row, small
/// blocks spread the rows over more multiprocessors.
template <softmax_forward_variant Variant>
inline constexpr int softmax_forward_block_size =
    Variant == softmax_forward_variant::thread_per_row ||
            Variant == softmax_forward_variant::online_thread_per_row
        ? 32
    : Variant == softmax_forward_variant::automatic ||
            Variant == softmax_forward_variant::row_on_chip
        ? 512
        : 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

template <class Scores>
__global__ void __launch_bounds__(Scores::most_threads, Scores::blocks)
    softmax_forward_kernel(float* out, const float* inp, row_shape shape) {
  using row_group = typename Scores::group;
  extern __shared__ __align__(16) float rest_of_row[];
  __shared__ typename row_group::storage storage;
  const row_group group(storage);
  group.for_each_row(shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.channels;
    auto scores = Scores::row(rest_of_row, inp + offset, shape.channels);
    device::softmax_row<Scores::sum>(group, typename Scores::out{out + offset}, scores);
  });
}

/// Calls `body(scores, shared_bytes)` with what the variant does to rows, see scores.cuh, and the
/// shared memory for that. `wide`: rows can be read 16 bytes at a time.
template <softmax_forward_variant Variant, int BlockSize, class Body>
void with_softmax_forward_scores(const char* function, bool wide, std::int64_t channels,
                                 Body body) {
  using variant = softmax_forward_variant;
  if constexpr (Variant == variant::thread_per_row) {
    body(thread_in_passes{}, 0);
  } else if constexpr (Variant == variant::online_thread_per_row) {
    body(thread_online{}, 0);
  } else if constexpr (Variant == variant::block_reduction) {
    body(block_in_passes{}, 0);
  } else if constexpr (Variant == variant::warp_per_row) {
    body(warp_in_passes{}, 0);
  } else if constexpr (Variant == variant::online_warp_per_row) {
    body(warp_online{}, 0);
  } else {
    with_block_scores<Variant, BlockSize, true>(function, wide, channels, 0, body);
  }
}

}  // namespace detail

/// The softmax of every row; see the top of this file for the formula. A row that is -infinity
/// throughout, or holds a +infinity or a NaN, becomes NaN, as by the formula.
///
/// @param[out] out (rows, C), overwritten; may alias `inp`
/// @param[in]  inp (rows, C)
///
/// Any alignment. Deterministic. Throws invalid_argument for rows < 0, channels < 1 or a null
/// array; unsupported if `row_on_chip` is named for rows that it cannot take; cuda_error if the
/// launch fails.
template <softmax_forward_variant Variant = softmax_forward_variant::automatic,
          int BlockSize = softmax_forward_block_size<Variant>>
void softmax_forward(float* out, const float* inp, row_shape shape, cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "softmax_forward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::softmax_forward";
  checks::require_shape(function, shape);
  if (shape.rows == 0) return;
  checks::require_pointer(function, "out", out);
  checks::require_pointer(function, "inp", inp);

  detail::with_softmax_forward_scores<Variant, BlockSize>(
      function, detail::is_16_byte_accessible(shape.channels, out, inp), shape.channels,
      [&](auto scores, std::size_t shared_bytes) {
        using row_scores = decltype(scores);
        detail::launch_over_rows<row_scores>(function, shape.rows, BlockSize, shared_bytes, stream,
                                             detail::softmax_forward_kernel<row_scores>, out, inp,
                                             shape);
      });
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class softmax_backward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread owns a row and passes over it twice: the sum of dout * out, then the result. Wins
  /// nowhere: the threads of a warp read a whole row apart.
  thread_per_row,
  /// The same by a warp. Wins for rows of up to a few hundred channels, if there are thousands of
  /// them.
  warp_per_row,
  /// The same by a block, by packs. The second pass goes from the end back, since the cache still
  /// holds the end. Wins for rows of a thousand channels and more that row_on_chip cannot take.
  block_per_row,
  /// A block keeps both rows on the chip, `out` in registers and shared memory, `dout` in shared
  /// memory, so that memory sees each number once. Wins for rows of 8192 channels and more, among
  /// them GPT-2's vocabulary. Takes rows that begin at 16-byte boundaries and fit: on an H100 51456
  /// floats with 512 threads, 40192 with 256.
  row_on_chip
};

inline constexpr std::array softmax_backward_variants{
    softmax_backward_variant::automatic, softmax_backward_variant::thread_per_row,
    softmax_backward_variant::warp_per_row, softmax_backward_variant::block_per_row,
    softmax_backward_variant::row_on_chip};

constexpr const char* to_string(softmax_backward_variant variant) {
  switch (variant) {
    case softmax_backward_variant::automatic: return "automatic";
    case softmax_backward_variant::thread_per_row: return "thread_per_row";
    case softmax_backward_variant::warp_per_row: return "warp_per_row";
    case softmax_backward_variant::block_per_row: return "block_per_row";
    case softmax_backward_variant::row_on_chip: return "row_on_chip";
  }
  return "unknown";
}

/// Threads a block, the fastest on an H100 at GPT-2's vocabulary.
template <softmax_backward_variant Variant>
inline constexpr int softmax_backward_block_size =
    Variant == softmax_backward_variant::thread_per_row ? 32
    : Variant == softmax_backward_variant::warp_per_row ? 256
                                                        : 512;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Where `out` is kept on the chip, all of `dout` lies in shared memory.
template <class Scores>
__global__ void __launch_bounds__(Scores::most_threads, Scores::blocks)
    softmax_backward_kernel(float* dinp, const float* dout, const float* out, row_shape shape) {
  using row_group = typename Scores::group;
  extern __shared__ __align__(16) float rows[];
  __shared__ typename row_group::storage storage;
  const row_group group(storage);
  group.for_each_row(shape.rows, [&](std::int64_t row) {
    const std::int64_t offset = row * shape.channels;
    const float* d = dout + offset;
    auto p = Scores::row(rows + static_cast<int>(shape.channels), out + offset, shape.channels);
    if constexpr (Scores::on_chip) {
      device::begin_to_copy_row<Scores::most_threads>(rows, d, static_cast<int>(shape.channels));
      device::finish_copies();
      d = rows;
    }
    device::softmax_gradient(group, typename Scores::out{dinp + offset}, d, p);
  });
}

/// Calls `body(scores, shared_bytes)` with what the variant does to rows, see scores.cuh, and the
/// shared memory for that. `wide`: rows can be read 16 bytes at a time.
template <softmax_backward_variant Variant, int BlockSize, class Body>
void with_softmax_backward_scores(const char* function, bool wide, std::int64_t channels,
                                  Body body) {
  using variant = softmax_backward_variant;
  if constexpr (Variant == variant::thread_per_row) {
    body(thread_in_passes{}, 0);
  } else if constexpr (Variant == variant::warp_per_row) {
    body(warp_in_passes{}, 0);
  } else {
    with_block_scores<Variant, BlockSize, true>(function, wide, channels, 1, body);
  }
}

}  // namespace detail

/// The gradient of softmax_forward:
///
///     dinp[c] = out[c] * (dout[c] - sum_k dout[k] * out[k])
///
/// @param[out] dinp (rows, C), overwritten; may alias `dout`
/// @param[in]  dout (rows, C)
/// @param[in]  out  (rows, C), the result of the forward pass
///
/// Any alignment. Deterministic. Throws invalid_argument for rows < 0, channels < 1 or a null
/// array; unsupported if `row_on_chip` is named for rows that it cannot take; cuda_error if the
/// launch fails.
template <softmax_backward_variant Variant = softmax_backward_variant::automatic,
          int BlockSize = softmax_backward_block_size<Variant>>
void softmax_backward(float* dinp, const float* dout, const float* out, row_shape shape,
                      cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "softmax_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::softmax_backward";
  checks::require_shape(function, shape);
  if (shape.rows == 0) return;
  checks::require_pointer(function, "dinp", dinp);
  checks::require_pointer(function, "dout", dout);
  checks::require_pointer(function, "out", out);

  detail::with_softmax_backward_scores<Variant, BlockSize>(
      function, detail::is_16_byte_accessible(shape.channels, dinp, dout, out), shape.channels,
      [&](auto scores, std::size_t shared_bytes) {
        using row_scores = decltype(scores);
        detail::launch_over_rows<row_scores>(function, shape.rows, BlockSize, shared_bytes, stream,
                                             detail::softmax_backward_kernel<row_scores>, dinp,
                                             dout, out, shape);
      });
}

LLMC_NAMESPACE_END
