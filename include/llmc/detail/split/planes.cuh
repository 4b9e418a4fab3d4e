/// @file
/// A matrix in halves as kernels see it, and its numbers; see split_matrix.hpp.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cuda_fp16.h>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/split_matrix.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// A split_matrix with its addresses worked out.
struct split_planes {
  std::uint16_t* high;  ///< the low plane begins `plane` elements later
  float* scales;
  std::int64_t plane;
  std::int64_t stride;  ///< elements from one row to the next
  std::int32_t row_blocks;
  std::int32_t column_blocks;

  explicit split_planes(const split_matrix& matrix) {
    const split_layout layout(matrix.shape);
    high = static_cast<std::uint16_t*>(matrix.data);
    plane = layout.plane();
    scales = reinterpret_cast<float*>(high + 2 * plane);
    stride = layout.padded_channels();
    row_blocks = static_cast<std::int32_t>(layout.row_blocks);
    column_blocks = static_cast<std::int32_t>(layout.column_blocks);
  }
};

/// split_layout::place in device code.
__device__ __forceinline__ int place_of(int index) {
  const int in_group = index % 16;
  return index - in_group + 8 * (in_group / 2 % 2) + 2 * (in_group / 4) + in_group % 2;
}

/// 2^exponent, for -126 to 127.
constexpr __device__ __forceinline__ float power_of_two(int exponent) {
  float power = 1.0f;
  for (int i = 0; i < exponent; ++i) power *= 2.0f;
  for (int i = 0; i > exponent; --i) power *= 0.5f;
  return power;
}

/// The exponent of a block's scale, from the bits of its largest number. A block of zeros has scale
/// 1, so that it does not look like one of tiny numbers.
__device__ __forceinline__ int scale_exponent(std::uint32_t most) {
  constexpr int bias = 127, mantissa_bits = 23;
  if (most == 0) return 0;
  const int exponent = static_cast<int>(most >> mantissa_bits) - bias;
  return (max)(exponent, split_scale::least_exponent) - split_scale::top_exponent;
}
__device__ __forceinline__ float float_power(int exponent) {
  constexpr int bias = 127, mantissa_bits = 23;
  return __int_as_float((exponent + bias) << mantissa_bits);
}
/// What a block's numbers are multiplied by before they are rounded to halves.
__device__ __forceinline__ float split_factor(std::uint32_t most) {
  return float_power(-scale_exponent(most));
}
__device__ __forceinline__ float scale_of(std::uint32_t most, bool has_low) {
  return __uint_as_float(__float_as_uint(float_power(scale_exponent(most))) |
                         (has_low ? split_scale::has_low : 0));
}
/// The scale without the bit that says that there are low parts.
__device__ __forceinline__ float power_in(float scale) {
  return __uint_as_float(__float_as_uint(scale) & ~split_scale::has_low);
}

/// Two neighbours, as they lie in the planes.
struct split_pair {
  std::uint32_t high;
  std::uint32_t low;
};

/// Two scaled numbers as halves.
__device__ __forceinline__ split_pair split_two(float x, float y) {
  constexpr float up = power_of_two(split_scale::low_exponent);
  const __half2 high = __floats2half2_rn(x, y);
  const float2 kept = __half22float2(high);
  const __half2 low = __floats2half2_rn((x - kept.x) * up, (y - kept.y) * up);
  return {*reinterpret_cast<const std::uint32_t*>(&high),
          *reinterpret_cast<const std::uint32_t*>(&low)};
}

/// Two numbers of a block that keeps its FP32 bits.
__device__ __forceinline__ split_pair bits_of_pair(float x, float y) {
  const std::uint32_t a = __float_as_uint(x), b = __float_as_uint(y);
  return {__byte_perm(a, b, 0x7632), __byte_perm(a, b, 0x5410)};
}

/// The number at an offset into the planes, in a block of that scale.
__device__ __forceinline__ float joined(const split_planes& from, std::int64_t at, float scale) {
  constexpr float down = power_of_two(-split_scale::low_exponent);
  const std::uint16_t high = __ldg(from.high + at), low = __ldg(from.high + from.plane + at);
  if (scale == 0.0f) return __uint_as_float(std::uint32_t{high} << 16 | low);
  return (__half2float(__ushort_as_half(high)) + __half2float(__ushort_as_half(low)) * down) *
         power_in(scale);
}

}  // namespace detail
LLMC_NAMESPACE_END
