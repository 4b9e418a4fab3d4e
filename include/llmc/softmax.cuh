/// @file
/// Softmax over the channels of each row:
///
///     out[c] = exp(inp[c] - max(inp)) / sum_k exp(inp[k] - max(inp))
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/pack.cuh>
#include <llmc/device/reduce.cuh>
#include <llmc/device/row_on_chip.cuh>
#include <llmc/device/row_softmax.cuh>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class softmax_forward_variant {
  /// The best for this device and shape.
  automatic,
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
                                                     softmax_forward_variant::block_per_row,
                                                     softmax_forward_variant::row_on_chip};

constexpr const char* to_string(softmax_forward_variant variant) {
  switch (variant) {
    case softmax_forward_variant::automatic: return "automatic";
    case softmax_forward_variant::block_per_row: return "block_per_row";
    case softmax_forward_variant::row_on_chip: return "row_on_chip";
  }
  return "unknown";
}

/// Threads a block; not yet measured.
template <softmax_forward_variant Variant>
inline constexpr int softmax_forward_block_size = 256;

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

  const bool wide = detail::is_16_byte_accessible(shape.channels, out, inp);
  if constexpr (Variant != softmax_forward_variant::block_per_row) {
    if (detail::keeps_row_on_chip<Variant>(function, wide, shape.channels, BlockSize)) {
      detail::launch({function, shape.rows, BlockSize,
                      detail::row_on_chip_shared_bytes(shape.channels, BlockSize), stream},
                     detail::softmax_forward_on_chip_kernel<BlockSize>, out, inp, shape);
      return;
    }
  }
  detail::with_access_width(wide, [&](auto width) {
    detail::launch({function, shape.rows, BlockSize, 0, stream},
                   detail::softmax_forward_kernel<width(), BlockSize>, out, inp, shape);
  });
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class softmax_backward_variant {
  /// The best for this device and shape.
  automatic,
  /// A block owns a row and passes over it twice: the sum of dout * out, then the result. Wins and
  /// loses where softmax_forward_variant::block_per_row does.
  block_per_row
};

inline constexpr std::array softmax_backward_variants{softmax_backward_variant::automatic,
                                                      softmax_backward_variant::block_per_row};

constexpr const char* to_string(softmax_backward_variant variant) {
  switch (variant) {
    case softmax_backward_variant::automatic: return "automatic";
    case softmax_backward_variant::block_per_row: return "block_per_row";
  }
  return "unknown";
}

/// Threads a block; not yet measured.
template <softmax_backward_variant Variant>
inline constexpr int softmax_backward_block_size = 256;

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
/// array; cuda_error if the launch fails.
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

  detail::with_access_width(
      detail::is_16_byte_accessible(shape.channels, dinp, dout, out), [&](auto width) {
        detail::launch({function, shape.rows, BlockSize, 0, stream},
                       detail::softmax_backward_kernel<width(), BlockSize>, dinp, dout, out, shape);
      });
}

LLMC_NAMESPACE_END
