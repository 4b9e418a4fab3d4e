/// @file
/// Softmax over the channels of each row:
///
///     out[c] = exp(inp[c] - max(inp)) / sum_k exp(inp[k] - max(inp))
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstdint>
#include <type_traits>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/detail/softmax/ladder.cuh>
#include <llmc/detail/softmax/row_method.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/device/row/row_on_chip.cuh>
#include <llmc/device/row/row_softmax.cuh>
#include <llmc/device/row/row_softmax_workers.cuh>
#include <llmc/device/row/row_workers.cuh>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class softmax_forward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread owns a row and passes over it three times: maximum, sum, result. The threads of a
  /// warp read a whole row apart, so each load asks for 32 places in memory. Wins nowhere.
  thread_per_row,
  /// A thread finds maximum and sum in one pass (Milakov and Gimelshein, 2018): the sum is rescaled
  /// when the maximum grows, so two passes do. Wins nowhere; the idea is that of all rungs below.
  online_thread_per_row,
  /// A block owns a row, so that neighbours read neighbours: three passes, with two reductions by
  /// shuffles and through shared memory. Wins nowhere: each pass waits at barriers, and short rows
  /// leave most threads idle.
  block_reduction,
  /// A warp owns a row: three passes, with reductions by shuffles alone, and no barrier. Wins for
  /// rows of up to a few hundred channels, if there are thousands of them.
  warp_per_row,
  /// The online sum by a warp, four loads at a time: two passes. Wins over warp_per_row where rows
  /// do not stay in the cache between passes.
  online_warp_per_row,
  /// A block owns a row and passes over it twice: maximum and sum together (the sum is rescaled
  /// when the maximum grows), then the result, which finds most of the row in the cache. Wins for
  /// rows of a thousand channels and more that row_on_chip cannot take; short rows leave most of
  /// its threads idle.
  block_per_row,
  /// A block reads its row once, into registers and shared memory, and passes over it there; memory
  /// sees each number once. Wins for rows of 8192 channels and more, among them GPT-2's vocabulary.
  /// Takes rows that begin at 16-byte boundaries and fit: 53248 floats everywhere with 512 threads,
  /// 80000 with 256 on an H100.
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
namespace device {

/// The softmax of one row, by a block. `out` may be `inp`.
template <int Width, int BlockSize>
__device__ void softmax_row(float* out, const float* inp, std::int64_t channels,
                            typename block_reducer<float, BlockSize>::storage& storage) {
  const softmax_statistics statistics =
      softmax_row_statistics<Width, BlockSize>(inp, channels, storage);
  const float scale = 1.0f / statistics.sum;
  for_each_pack_reversed<Width>(channels, threadIdx.x, BlockSize, [&](auto width, std::int64_t c) {
    auto x = load<width()>(inp + c);
    for (int i = 0; i < width(); ++i) x[i] = expf(x[i] - statistics.max) * scale;
    store<width()>(out + c, x);
  });
}

}  // namespace device

namespace detail {

template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    softmax_forward_kernel(float* out, const float* inp, row_shape shape) {
  __shared__ typename device::block_reducer<float, BlockSize>::storage storage;
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t offset = row * shape.channels;
    device::softmax_row<Width, BlockSize>(out + offset, inp + offset, shape.channels, storage);
  }
}

template <int BlockSize>
__global__ void __launch_bounds__(BlockSize, device::blocks_with_row_on_chip(BlockSize))
    softmax_forward_on_chip_kernel(float* out, const float* inp, row_shape shape) {
  extern __shared__ __align__(16) float rest_of_row[];
  __shared__ typename device::block_reducer<float, BlockSize>::storage storage;
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t offset = row * shape.channels;
    device::row_on_chip<BlockSize> x(rest_of_row, inp + offset, static_cast<int>(shape.channels));
    const float scale = 1.0f / device::softmax_exponentials(x, storage).sum;
    x.visit([&](device::pack<4>& p, int c) {
#pragma unroll
      for (int i = 0; i < 4; ++i) p[i] *= scale;
      device::store_streaming(out + offset + c, p);
    });
  }
}

/// Whether the variant is one of the kernels of detail/softmax/ladder.cuh.
constexpr bool is_rung(softmax_forward_variant variant) {
  return variant != softmax_forward_variant::automatic &&
         variant < softmax_forward_variant::block_per_row;
}

/// Who shares a row on that rung, and how.
template <softmax_forward_variant Variant>
constexpr auto softmax_forward_method() {
  using variant = softmax_forward_variant;
  using device::softmax_sum;
  if constexpr (Variant == variant::thread_per_row) {
    return row_method<device::lone_thread, softmax_sum::after_maximum>{};
  } else if constexpr (Variant == variant::online_thread_per_row) {
    return row_method<device::lone_thread, softmax_sum::online>{};
  } else if constexpr (Variant == variant::block_reduction) {
    return row_method<device::whole_block, softmax_sum::after_maximum>{};
  } else if constexpr (Variant == variant::warp_per_row) {
    return row_method<device::whole_warp, softmax_sum::after_maximum>{};
  } else {
    return row_method<device::whole_warp, softmax_sum::online>{};
  }
}

/// block_per_row, row_on_chip and the choice between them.
template <softmax_forward_variant Variant, int BlockSize>
void launch_softmax_forward(const char* function, float* out, const float* inp, row_shape shape,
                            cudaStream_t stream) {
  const bool wide = is_16_byte_accessible(shape.channels, out, inp);
  if constexpr (Variant != softmax_forward_variant::block_per_row) {
    if (keeps_row_on_chip<Variant>(function, wide, shape.channels, BlockSize)) {
      launch({function, shape.rows, BlockSize, row_on_chip_shared_bytes(shape.channels, BlockSize),
              stream},
             softmax_forward_on_chip_kernel<BlockSize>, out, inp, shape);
      return;
    }
  }
  with_access_width(wide, [&](auto width) {
    launch({function, shape.rows, BlockSize, 0, stream}, softmax_forward_kernel<width(), BlockSize>,
           out, inp, shape);
  });
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

  if constexpr (detail::is_rung(Variant)) {
    using method = decltype(detail::softmax_forward_method<Variant>());
    detail::launch_over_rows<typename method::workers>(function, shape.rows, BlockSize, stream,
                                                       detail::softmax_forward_rows_kernel<method>,
                                                       out, inp, shape);
  } else {
    detail::launch_softmax_forward<Variant, BlockSize>(function, out, inp, shape, stream);
  }
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class softmax_backward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread owns a row and passes over it twice: the sum of dout * out, then the result. The
  /// threads of a warp read a whole row apart. Wins nowhere.
  thread_per_row,
  /// The same by a warp: neighbours read neighbours, and the sum is reduced by shuffles. Wins for
  /// rows of up to a few hundred channels, if there are thousands of them.
  warp_per_row,
  /// The same by a block, by packs, and the second time from the end back, which finds most of the
  /// row in the cache. Wins for rows of a thousand channels and more that row_on_chip cannot take.
  block_per_row,
  /// A block reads both rows once, `out` into registers and shared memory, `dout` into shared
  /// memory; memory sees each number once. Wins for rows of 8192 channels and more, among them
  /// GPT-2's vocabulary. Takes rows that begin at 16-byte boundaries and fit: on an H100 51456
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
namespace device {

/// The gradient of softmax_row, by a block. `dinp` may be `dout`.
template <int Width, int BlockSize>
__device__ void softmax_backward_row(float* dinp, const float* dout, const float* out,
                                     std::int64_t channels,
                                     typename block_reducer<float, BlockSize>::storage& storage) {
  float sum = 0.0f;
  for_each_pack<Width>(channels, threadIdx.x, BlockSize, [&](auto width, std::int64_t c) {
    const auto d = load<width()>(dout + c);
    const auto p = load<width()>(out + c);
    for (int i = 0; i < width(); ++i) sum += d[i] * p[i];
  });
  const float dot = block_reducer<float, BlockSize>(storage).sum(sum);

  for_each_pack_reversed<Width>(channels, threadIdx.x, BlockSize, [&](auto width, std::int64_t c) {
    auto d = load<width()>(dout + c);
    const auto p = load<width()>(out + c);
    for (int i = 0; i < width(); ++i) d[i] = p[i] * (d[i] - dot);
    store<width()>(dinp + c, d);
  });
}

}  // namespace device

namespace detail {

template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    softmax_backward_kernel(float* dinp, const float* dout, const float* out, row_shape shape) {
  __shared__ typename device::block_reducer<float, BlockSize>::storage storage;
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t offset = row * shape.channels;
    device::softmax_backward_row<Width, BlockSize>(dinp + offset, dout + offset, out + offset,
                                                   shape.channels, storage);
  }
}

template <int BlockSize>
__global__ void __launch_bounds__(BlockSize, device::blocks_with_row_on_chip(BlockSize))
    softmax_backward_on_chip_kernel(float* dinp, const float* dout, const float* out,
                                    row_shape shape) {
  extern __shared__ __align__(16) float rows[];
  __shared__ typename device::block_reducer<float, BlockSize>::storage storage;
  const int channels = static_cast<int>(shape.channels);
  float* const rest_of_out = rows + channels;
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const std::int64_t offset = row * shape.channels;
    device::begin_to_copy_row<BlockSize>(rows, dout + offset, channels);
    device::row_on_chip<BlockSize> p(rest_of_out, out + offset, channels);
    float sum = 0.0f;
    p.visit([&](const device::pack<4>& x, int c) {
      const auto d = device::load<4>(rows + c);
#pragma unroll
      for (int i = 0; i < 4; ++i) sum += d[i] * x[i];
    });
    const float dot = device::block_reducer<float, BlockSize>(storage).sum(sum);
    p.visit([&](const device::pack<4>& x, int c) {
      auto d = device::load<4>(rows + c);
#pragma unroll
      for (int i = 0; i < 4; ++i) d[i] = x[i] * (d[i] - dot);
      device::store_streaming(dinp + offset + c, d);
    });
  }
}

/// block_per_row, row_on_chip and the choice between them.
template <softmax_backward_variant Variant, int BlockSize>
void launch_softmax_backward(const char* function, float* dinp, const float* dout, const float* out,
                             row_shape shape, cudaStream_t stream) {
  const bool wide = is_16_byte_accessible(shape.channels, dinp, dout, out);
  if constexpr (Variant != softmax_backward_variant::block_per_row) {
    constexpr int others = 1;  // dout
    if (keeps_row_on_chip<Variant>(function, wide, shape.channels, BlockSize, others)) {
      launch({function, shape.rows, BlockSize,
              row_on_chip_shared_bytes(shape.channels, BlockSize, others), stream},
             softmax_backward_on_chip_kernel<BlockSize>, dinp, dout, out, shape);
      return;
    }
  }
  with_access_width(wide, [&](auto width) {
    launch({function, shape.rows, BlockSize, 0, stream},
           softmax_backward_kernel<width(), BlockSize>, dinp, dout, out, shape);
  });
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

  using variant = softmax_backward_variant;
  if constexpr (Variant == variant::thread_per_row || Variant == variant::warp_per_row) {
    using workers = std::conditional_t<Variant == variant::thread_per_row, device::lone_thread,
                                       device::whole_warp>;
    detail::launch_over_rows<workers>(function, shape.rows, BlockSize, stream,
                                      detail::softmax_backward_rows_kernel<workers>, dinp, dout,
                                      out, shape);
  } else {
    detail::launch_softmax_backward<Variant, BlockSize>(function, dinp, dout, out, shape, stream);
  }
}

LLMC_NAMESPACE_END
