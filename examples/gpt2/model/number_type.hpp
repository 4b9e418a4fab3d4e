/// @file
/// The types in which files hold a model's numbers. In memory they are floats.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpt2_trainer {

enum class number_type { f32, f16, bf16 };

/// As people write them, and safetensors.
constexpr const char* to_string(number_type type) {
  switch (type) {
    case number_type::f32: return "F32";
    case number_type::f16: return "F16";
    case number_type::bf16: return "BF16";
  }
  return "unknown";
}

inline constexpr std::array number_types{number_type::f32, number_type::f16, number_type::bf16};

constexpr std::int64_t bytes_of(number_type type) {
  return type == number_type::f32 ? 4 : 2;
}

/// The number that a bfloat16 of these bits is.
inline float widened_bf16(std::uint16_t half) {
  const std::uint32_t bits = std::uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// The number that an IEEE half of these bits is. Every one is a float, too.
inline float widened_f16(std::uint16_t half) {
  const std::uint32_t sign = std::uint32_t{half & 0x8000u} << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1f;
  const std::uint32_t fraction = half & 0x3ff;
  std::uint32_t bits = 0;
  if (exponent == 0) {  // zero or subnormal: multiples of 2^-24
    const float size = static_cast<float>(fraction) * 0x1p-24f;
    std::memcpy(&bits, &size, sizeof bits);
  } else if (exponent == 0x1f) {  // infinite or none at all
    bits = 0x7f800000u | fraction << 13;
  } else {
    bits = (exponent + 127 - 15) << 23 | fraction << 13;
  }
  bits |= sign;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Turns numbers of a type of 16 bits into floats.
inline void widen(const std::uint16_t* from, number_type type, std::size_t count, float* to) {
  const auto widened = type == number_type::f16 ? widened_f16 : widened_bf16;
  for (std::size_t i = 0; i < count; ++i) to[i] = widened(from[i]);
}

}  // namespace gpt2_trainer
