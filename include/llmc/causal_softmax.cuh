/// @file
/// The softmax of causal attention over scores (B, NH, T, T), in which a query sees the keys up to
/// its own position. For every row t of every head
///
///     out[t][s] = exp(scale * inp[t][s]) / sum_{j <= t} exp(scale * inp[t][j])    for s <= t
///     out[t][s] = 0                                                               for s > t
///
/// Shapes are those of attention; the head size takes no part. `attention_forward` keeps no scores
/// and is much faster than products around this layer: use it where scores are not wanted.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstdint>
#include <type_traits>

#include <llmc/detail/attention/scores.hpp>
#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/detail/row/scores.cuh>
#include <llmc/device/row/row.cuh>
#include <llmc/device/row/row_partly_kept.cuh>
#include <llmc/device/row/softmax.cuh>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class causal_softmax_forward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread owns a row and passes over it three times: maximum, sum, result. Wins nowhere: the
  /// threads of a warp read a whole row apart.
  thread_per_row,
  /// A thread finds maximum and sum in one pass, rescaling the sum when the maximum grows: two
  /// passes instead of three, for one more exponential a score.
  online_thread_per_row,
  /// A block owns a row, in three passes; most threads idle in short rows. Wins for a few very long
  /// rows.
  block_per_row,
  /// A warp owns a row, in three passes, and needs no barrier.
  warp_per_row,
  /// The online sum by a warp: two passes.
  online_warp_per_row,
  /// The online sum by a warp that keeps the first 1024 scores of the row in registers (512 where
  /// it reads single floats), so that memory sends each of them once. Wins nearly everywhere. Takes
  /// blocks of up to 512 threads, which leaves each enough registers.
  row_in_registers
};

inline constexpr std::array causal_softmax_forward_variants{
    causal_softmax_forward_variant::automatic,
    causal_softmax_forward_variant::thread_per_row,
    causal_softmax_forward_variant::online_thread_per_row,
    causal_softmax_forward_variant::block_per_row,
    causal_softmax_forward_variant::warp_per_row,
    causal_softmax_forward_variant::online_warp_per_row,
    causal_softmax_forward_variant::row_in_registers};

constexpr const char* to_string(causal_softmax_forward_variant variant) {
  switch (variant) {
    case causal_softmax_forward_variant::automatic: return "automatic";
    case causal_softmax_forward_variant::thread_per_row: return "thread_per_row";
    case causal_softmax_forward_variant::online_thread_per_row: return "online_thread_per_row";
    case causal_softmax_forward_variant::block_per_row: return "block_per_row";
    case causal_softmax_forward_variant::warp_per_row: return "warp_per_row";
    case causal_softmax_forward_variant::online_warp_per_row: return "online_warp_per_row";
    case causal_softmax_forward_variant::row_in_registers: return "row_in_registers";
  }
  return "unknown";
}

/// Threads a block.
template <causal_softmax_forward_variant Variant>
inline constexpr int causal_softmax_forward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

/// A row of which a warp keeps up to 1024 numbers in registers, or 512 where they are read a float
/// at a time.
template <int Width>
struct scores_partly_kept {
  using group = device::whole_warp<>;
  static constexpr device::softmax_sum sum = device::softmax_sum::online;
  static constexpr int most_threads = 512;

  __device__ __forceinline__ static auto row(float*, const float* from, std::int64_t count) {
    return device::row_partly_kept < group, Width, Width == 1 ? 16 : 8 > (from, count);
  }
};

// causal_softmax goes through a row one score at a time.
template <class Group, device::softmax_sum Sum>
using causal_scores = scores_in_memory<Group, 1, Sum, device::any_block_size, 1>;

/// What the variant does to rows, forward and backward. `Width` is for scores_partly_kept.
template <auto Variant, int Width>
constexpr auto causal_softmax_scores() {
  using variant = decltype(Variant);
  using device::softmax_sum;
  if constexpr (Variant == variant::thread_per_row) {
    return causal_scores<device::lone_thread<>, softmax_sum::after_maximum>{};
  } else if constexpr (Variant == variant::block_per_row) {
    return causal_scores<device::whole_block<>, softmax_sum::after_maximum>{};
  } else if constexpr (Variant == variant::warp_per_row) {
    return causal_scores<device::whole_warp<>, softmax_sum::after_maximum>{};
  } else if constexpr (std::is_same_v<variant, causal_softmax_forward_variant>) {
    if constexpr (Variant == variant::online_thread_per_row) {
      return causal_scores<device::lone_thread<>, softmax_sum::online>{};
    } else if constexpr (Variant == variant::online_warp_per_row) {
      return causal_scores<device::whole_warp<>, softmax_sum::online>{};
    } else {
      return scores_partly_kept<Width>{};
    }
  } else {
    return scores_partly_kept<Width>{};
  }
}

/// Query t of a head sees the first t + 1 keys. The results of the other keys become 0.
template <class Scores>
__global__ void __launch_bounds__(Scores::most_threads)
    causal_softmax_rows_kernel(float* out, const float* inp, std::int64_t rows, std::int64_t keys,
                               float scale) {
  using row_group = typename Scores::group;
  __shared__ typename row_group::storage storage;
  const row_group group(storage);
  group.for_each_row(rows, [&](std::int64_t row) {
    const std::int64_t offset = row * keys;
    const auto visible = Scores::row(nullptr, inp + offset, row % keys + 1);
    const device::scaled_row scores(visible, scale);
    device::softmax_row<Scores::sum>(group, out + offset, scores);
    device::clear_row<decltype(visible)::end_width>(group, out + offset, visible.end(), keys);
  });
}

}  // namespace detail

/// The softmax of every row; see the top of this file for the formula. A row whose visible scores
/// are -infinity throughout, or hold a +infinity or a NaN, becomes NaN up to the diagonal, as by
/// the formula. What `inp` holds above the diagonal takes no part.
///
/// @param[out] out   (B, NH, T, T), overwritten, with 0 above the diagonal; may alias `inp`
/// @param[in]  inp   (B, NH, T, T)
/// @param      shape the head size must be at least 1 and takes no part
/// @param      scale of the scores: 1 / sqrt(HS) in attention
///
/// Any alignment. Deterministic. Right at any magnitude of finite scaled scores. Throws
/// invalid_argument for a negative extent, NH < 1, HS < 1, a null array or a scale that is negative
/// or not finite; cuda_error if the launch fails.
template <causal_softmax_forward_variant Variant = causal_softmax_forward_variant::automatic,
          int BlockSize = causal_softmax_forward_block_size<Variant>>
void causal_softmax_forward(float* out, const float* inp, attention_shape shape, float scale,
                            cudaStream_t stream) {
  using variant = causal_softmax_forward_variant;
  constexpr bool in_registers =
      Variant == variant::automatic || Variant == variant::row_in_registers;
  static_assert(detail::is_block_size(BlockSize),
                "causal_softmax_forward: BlockSize must be a multiple of 32 between 32 and 1024");
  static_assert(!in_registers || BlockSize <= detail::scores_partly_kept<1>::most_threads,
                "causal_softmax_forward: the variant row_in_registers takes a BlockSize of at most "
                "512");
  constexpr const char* function = "llmc::causal_softmax_forward";
  const std::int64_t rows = checks::require_scores(function, shape);
  checks::require_finite_at_least(function, "scale", scale, 0.0);
  if (rows == 0) return;
  checks::require_pointer(function, "out", out);
  checks::require_pointer(function, "inp", inp);

  const bool wide = detail::is_16_byte_accessible(shape.sequence, out, inp);
  detail::with_access_width(in_registers && wide, [&](auto width) {
    using scores = decltype(detail::causal_softmax_scores<Variant, width()>());
    detail::launch_over_rows<scores>(function, rows, BlockSize, 0, stream,
                                     detail::causal_softmax_rows_kernel<scores>, out, inp, rows,
                                     shape.sequence, scale);
  });
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class causal_softmax_backward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread owns a row and passes over it twice: the sum of dout * out, then the result. Wins
  /// nowhere: the threads of a warp read a whole row apart.
  thread_per_row,
  /// A block owns a row; the first rows of a head keep few of its threads busy. Wins for a few very
  /// long rows.
  block_per_row,
  /// A warp owns a row, and needs no barrier.
  warp_per_row,
  /// A warp keeps the first 1024 numbers of a row of dout and of out (512 where it reads single
  /// floats) in registers until the sum is known, so that memory sends each of them once. Takes
  /// blocks of up to 512 threads, which leaves each enough registers.
  row_in_registers,
  /// The same, but each warp takes the rows t and T - 1 - t, one after the other. They have T + 1
  /// visible scores together whatever t is, so that no block ends before the others. Where there
  /// are enough rows to fill the GPU anyway, it is as fast as row_in_registers and no faster.
  paired_rows
};

inline constexpr std::array causal_softmax_backward_variants{
    causal_softmax_backward_variant::automatic,
    causal_softmax_backward_variant::thread_per_row,
    causal_softmax_backward_variant::block_per_row,
    causal_softmax_backward_variant::warp_per_row,
    causal_softmax_backward_variant::row_in_registers,
    causal_softmax_backward_variant::paired_rows};

constexpr const char* to_string(causal_softmax_backward_variant variant) {
  switch (variant) {
    case causal_softmax_backward_variant::automatic: return "automatic";
    case causal_softmax_backward_variant::thread_per_row: return "thread_per_row";
    case causal_softmax_backward_variant::block_per_row: return "block_per_row";
    case causal_softmax_backward_variant::warp_per_row: return "warp_per_row";
    case causal_softmax_backward_variant::row_in_registers: return "row_in_registers";
    case causal_softmax_backward_variant::paired_rows: return "paired_rows";
  }
  return "unknown";
}

/// Threads a block.
template <causal_softmax_backward_variant Variant>
inline constexpr int causal_softmax_backward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

struct causal_softmax_backward_arrays {
  float* dinp;
  const float* dout;
  const float* out;
};

/// Unpaired, a group takes one row at a time. Paired, it takes two: a head of T rows has (T + 1) /
/// 2 turns, and turn i is row T - 1 - i and then row i. In the middle of an odd T these are one
/// row, which is done once.
template <class Scores, bool Paired>
__global__ void __launch_bounds__(Scores::most_threads)
    causal_softmax_backward_rows_kernel(causal_softmax_backward_arrays a, std::int64_t heads,
                                        std::int64_t keys, float scale) {
  using row_group = typename Scores::group;
  __shared__ typename row_group::storage storage;
  const row_group group(storage);
  const auto work = [&](std::int64_t head, std::int64_t t) {
    const std::int64_t offset = (head * keys + t) * keys;
    const auto d = Scores::row(nullptr, a.dout + offset, t + 1);
    const auto p = Scores::row(nullptr, a.out + offset, t + 1);
    device::softmax_gradient(group, a.dinp + offset, d, p, scale);
    device::clear_row<decltype(p)::end_width>(group, a.dinp + offset, p.end(), keys);
  };
  const std::int64_t turns = Paired ? (keys + 1) / 2 : keys;  // of a head
  group.for_each_row(heads * turns, [&](std::int64_t turn) {
    const std::int64_t head = turn / turns;
    const std::int64_t t = turn % turns;
    for (std::int64_t row = Paired ? keys - 1 - t : t;; row = t) {
      work(head, row);
      if (row == t) break;
    }
  });
}

}  // namespace detail

/// The gradient of causal_softmax_forward:
///
///     dinp[t][s] = scale * out[t][s] * (dout[t][s] - sum_{j <= t} dout[t][j] * out[t][j])
///
/// for s <= t, and 0 above the diagonal. What `dout` and `out` hold there takes no part.
///
/// @param[out] dinp  (B, NH, T, T), overwritten; may alias `dout`
/// @param[in]  dout  (B, NH, T, T)
/// @param[in]  out   (B, NH, T, T), the result of the forward pass
/// @param      shape the head size must be at least 1 and takes no part
/// @param      scale that of the forward pass
///
/// Any alignment. Deterministic in every variant: threads reduce each sum in a fixed order, and
/// none is added to in memory. Throws as causal_softmax_forward does.
template <causal_softmax_backward_variant Variant = causal_softmax_backward_variant::automatic,
          int BlockSize = causal_softmax_backward_block_size<Variant>>
void causal_softmax_backward(float* dinp, const float* dout, const float* out,
                             attention_shape shape, float scale, cudaStream_t stream) {
  using variant = causal_softmax_backward_variant;
  constexpr bool paired = Variant == variant::automatic || Variant == variant::paired_rows;
  constexpr bool in_registers = paired || Variant == variant::row_in_registers;
  static_assert(detail::is_block_size(BlockSize),
                "causal_softmax_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  static_assert(!in_registers || BlockSize <= detail::scores_partly_kept<1>::most_threads,
                "causal_softmax_backward: the variants row_in_registers and paired_rows take a "
                "BlockSize of at most 512");
  constexpr const char* function = "llmc::causal_softmax_backward";
  const std::int64_t rows = checks::require_scores(function, shape);
  checks::require_finite_at_least(function, "scale", scale, 0.0);
  if (rows == 0) return;
  checks::require_pointer(function, "dinp", dinp);
  checks::require_pointer(function, "dout", dout);
  checks::require_pointer(function, "out", out);

  const std::int64_t keys = shape.sequence;
  const std::int64_t heads = shape.batch * shape.heads;
  const std::int64_t turns = heads * (paired ? detail::ceil_div(keys, 2) : keys);
  const detail::causal_softmax_backward_arrays arrays{dinp, dout, out};
  const bool wide = detail::is_16_byte_accessible(keys, dinp, dout, out);
  detail::with_access_width(in_registers && wide, [&](auto width) {
    using scores = decltype(detail::causal_softmax_scores<Variant, width()>());
    detail::launch_over_rows<scores>(function, turns, BlockSize, 0, stream,
                                     detail::causal_softmax_backward_rows_kernel<scores, paired>,
                                     arrays, heads, keys, scale);
  });
}

LLMC_NAMESPACE_END
