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
#include <llmc/detail/encoder/token_gradient.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/counter.cuh>
#include <llmc/device/pack.cuh>
#include <llmc/device/reduce.cuh>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class encoder_forward_variant {
  /// The best for this device and shape.
  automatic,
  /// A warp owns a position. Nothing but the memory limits it from a few thousand positions on.
  warp_per_row
};

inline constexpr std::array encoder_forward_variants{encoder_forward_variant::automatic,
                                                     encoder_forward_variant::warp_per_row};

constexpr const char* to_string(encoder_forward_variant variant) {
  switch (variant) {
    case encoder_forward_variant::automatic: return "automatic";
    case encoder_forward_variant::warp_per_row: return "warp_per_row";
  }
  return "unknown";
}

/// Threads a block; not yet measured.
template <encoder_forward_variant Variant>
inline constexpr int encoder_forward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace device {

/// The embedding of one position, by a warp. `token` may be null: then the position's alone.
template <int Width>
__device__ void encoder_row(float* out, const float* token, const float* position,
                            std::int64_t channels) {
  const int lane = threadIdx.x % warp_size;
  for_each_pack<Width>(channels, lane, warp_size, [&](auto width, std::int64_t c) {
    auto sum = load<width()>(position + c);
    if (token != nullptr) {
      const auto x = load<width()>(token + c);
      for (int i = 0; i < width(); ++i) sum[i] += x[i];
    }
    store<width()>(out + c, sum);
  });
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
    device::encoder_row<Width>(out + row * C, in_range ? wte + token * C : nullptr,
                               wpe + row % shape.sequence * C, C);
    if (!in_range && threadIdx.x % device::warp_size == 0) device::increment(out_of_range);
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

  const bool wide = detail::is_16_byte_accessible(shape.channels, out, wte, wpe);
  detail::with_access_width(wide, [&](auto width) {
    const std::int64_t blocks = detail::ceil_div(rows, BlockSize / device::warp_size);
    detail::launch({function, blocks, BlockSize, 0, stream},
                   detail::encoder_forward_kernel<width(), BlockSize>, out, out_of_range, tokens,
                   wte, wpe, shape);
  });
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class encoder_backward_variant {
  /// The best for this device and shape.
  automatic,
  /// dwpe by a thread a column, which adds the batch in order. dwte from the positions sorted by
  /// token and cut into pieces of equal length: a warp sums a piece, whatever tokens are in it, so
  /// one token everywhere is as fast as all different, and every sum has a fixed order.
  sorted_pieces
};

inline constexpr std::array encoder_backward_variants{encoder_backward_variant::automatic,
                                                      encoder_backward_variant::sorted_pieces};

constexpr const char* to_string(encoder_backward_variant variant) {
  switch (variant) {
    case encoder_backward_variant::automatic: return "automatic";
    case encoder_backward_variant::sorted_pieces: return "sorted_pieces";
  }
  return "unknown";
}

/// Threads a block; not yet measured.
template <encoder_backward_variant Variant>
inline constexpr int encoder_backward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace device {

/// The gradient of `Width` elements of wpe: their gradients over the batch, `stride` apart, added
/// in order and in double, since the batch may be long.
template <int Width>
__device__ pack<Width> encoder_position_gradient(const float* dout, std::int64_t batch,
                                                 std::int64_t stride) {
  double total[Width] = {};
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

template <int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
    encoder_position_gradient_kernel(float* dwpe, const float* dout, encoder_shape shape,
                                     accumulation mode) {
  const std::int64_t count = shape.sequence * shape.channels;
  device::for_each_pack<Width>(
      count, device::thread_in_grid(), device::threads_in_grid(), [&](auto width, std::int64_t i) {
        device::store_or_add(
            dwpe + i, device::encoder_position_gradient<width()>(dout + i, shape.batch, count),
            mode == accumulation::add);
      });
}

}  // namespace detail

/// Bytes of scratch that encoder_backward needs for this shape. Asks CUB, so it needs a current
/// device: throws cuda_error without one.
inline std::size_t encoder_backward_workspace_bytes(encoder_shape shape) {
  constexpr const char* function = "llmc::encoder_backward_workspace_bytes";
  checks::require_shape(function, shape);
  return detail::token_gradient_workspace_bytes(function, shape);
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
/// @param[out]    workspace encoder_backward_workspace_bytes(shape) bytes; its contents are lost
/// @param[in]     tokens    (B, T); tokens outside [0, V) contribute nothing to dwte
/// @param[in]     dout      (B, T, C)
///
/// Any alignment. Deterministic. Throws invalid_argument for a negative B or T, C < 1, V < 1 or a
/// null array; cuda_error if a launch fails.
template <encoder_backward_variant Variant = encoder_backward_variant::automatic,
          int BlockSize = encoder_backward_block_size<Variant>>
void encoder_backward(float* dwte, float* dwpe, void* workspace, const std::int32_t* tokens,
                      const float* dout, encoder_shape shape, accumulation dwte_mode,
                      accumulation dwpe_mode, cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "encoder_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::encoder_backward";
  const std::int64_t rows = checks::require_shape(function, shape);
  checks::require_pointer(function, "dwte", dwte);
  if (shape.sequence > 0) checks::require_pointer(function, "dwpe", dwpe);
  if (rows > 0) {
    checks::require_pointer(function, "workspace", workspace);
    checks::require_pointer(function, "tokens", tokens);
    checks::require_pointer(function, "dout", dout);
  }

  detail::token_gradient<BlockSize>(function, dwte, workspace, tokens, dout, shape, dwte_mode,
                                    stream);
  const std::int64_t count = shape.sequence * shape.channels;
  detail::with_access_width(
      detail::is_16_byte_accessible(shape.channels, dwpe, dout), [&](auto width) {
        const std::int64_t blocks = detail::ceil_div(count, BlockSize * width());
        detail::launch({function, blocks, BlockSize, 0, stream},
                       detail::encoder_position_gradient_kernel<width(), BlockSize>, dwpe, dout,
                       shape, dwpe_mode);
      });
}

LLMC_NAMESPACE_END
