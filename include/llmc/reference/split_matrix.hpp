/// @file
/// Matrices in halves on the CPU; see llmc/split_matrix.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <llmc/reference/parallel.hpp>
#include <llmc/split_matrix.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

/// The half nearest to x, ties to even, as its bits. |x| must be below 65520.
inline std::uint16_t half_bits(double x) {
  constexpr int least_exponent = -14, digits = 10, bias = 15;
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double size = std::fabs(x);
  if (size == 0) return sign;
  const int exponent = (std::max)(std::ilogb(size), least_exponent);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, digits - exponent)));
  // A unit more than the mantissa holds carries into the exponent, as it should.
  return static_cast<std::uint16_t>(sign | (units + ((exponent + bias - 1) << digits)));
}

inline double half_value(std::uint16_t bits) {
  constexpr int least_exponent = -14, digits = 10, bias = 15;
  const int exponent = bits >> digits & 31, mantissa = bits & 1023;
  const double size = exponent == 0
                          ? std::ldexp(mantissa, least_exponent - digits)
                          : std::ldexp(mantissa + (1 << digits), exponent - bias - digits);
  return (bits & 0x8000) != 0 ? -size : size;
}

inline std::uint32_t float_bits(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// A matrix in halves in the CPU's memory.
struct host_split_matrix {
  split_layout layout;
  std::uint16_t* high;
  std::uint16_t* low;
  float* scales;

  explicit host_split_matrix(split_matrix matrix)
      : layout(matrix.shape),
        high(static_cast<std::uint16_t*>(matrix.data)),
        low(high + layout.plane()),
        scales(reinterpret_cast<float*>(low + layout.plane())) {}

  std::int64_t at(std::int64_t row, std::int64_t column) const {
    return split_layout::place(row) * layout.padded_channels() + split_layout::place(column);
  }
};

/// Splits one block: `value(row, column)` is a number of the padded matrix.
template <class Value>
void split_block(const host_split_matrix& out, std::int64_t row_block, std::int64_t column_block,
                 Value value) {
  constexpr auto side = split_layout::side;
  const std::int64_t first_row = row_block * side, first_column = column_block * side;
  double rows[side] = {}, columns[side] = {}, most = 0;
  bool finite = true, has_low = false;
  for (std::int64_t r = 0; r < side; ++r) {
    for (std::int64_t c = 0; c < side; ++c) {
      const float x = value(first_row + r, first_column + c);
      constexpr std::uint32_t beyond_11_digits = (1u << 13) - 1;
      has_low = has_low || (float_bits(x) & beyond_11_digits) != 0;
      finite = finite && std::isfinite(x);
      const double size = std::fabs(static_cast<double>(x));
      rows[r] = (std::max)(rows[r], size);
      columns[c] = (std::max)(columns[c], size);
      most = (std::max)(most, size);
    }
  }
  const auto loses = [&](double size) {
    return size > 0 && size < std::ldexp(most, -split_scale::kept_exponent);
  };
  const bool keeps_bits = !finite || most >= std::ldexp(1.0, split_scale::most_exponent) ||
                          std::any_of(rows, rows + side, loses) ||
                          std::any_of(columns, columns + side, loses);
  const int exponent = most == 0 ? split_scale::top_exponent
                                 : (std::max)(std::ilogb(most), split_scale::least_exponent);
  const double scale = std::ldexp(1.0, exponent - split_scale::top_exponent);
  const std::uint32_t low_bit = has_low ? split_scale::has_low : 0;
  out.scales[row_block * out.layout.column_blocks + column_block] =
      keeps_bits ? 0.0f : float_of(float_bits(static_cast<float>(scale)) | low_bit);
  for (std::int64_t r = first_row; r < first_row + side; ++r) {
    for (std::int64_t c = first_column; c < first_column + side; ++c) {
      const float x = value(r, c);
      const std::int64_t at = out.at(r, c);
      if (keeps_bits) {
        out.high[at] = static_cast<std::uint16_t>(float_bits(x) >> 16);
        out.low[at] = static_cast<std::uint16_t>(float_bits(x));
      } else {
        const double scaled = x / scale;
        out.high[at] = half_bits(scaled);
        const double rest = scaled - half_value(out.high[at]);
        out.low[at] = half_bits(std::ldexp(rest, split_scale::low_exponent));
      }
    }
  }
}

/// `out.data` is in the CPU's memory here. Returns how many blocks keep FP32 bits.
inline std::int64_t split(split_matrix out, const float* inp) {
  const row_shape shape = out.shape;
  checks::require_shape("llmc::reference::split", shape);
  const host_split_matrix to(out);
  parallel_for(to.layout.blocks(), [&](std::int64_t block) {
    split_block(to, block / to.layout.column_blocks, block % to.layout.column_blocks,
                [&](std::int64_t r, std::int64_t c) {
                  return r < shape.rows && c < shape.channels ? inp[r * shape.channels + c] : 0.0f;
                });
  });
  return std::count(to.scales, to.scales + to.layout.blocks(), 0.0f);
}

/// The numbers that a matrix in halves holds.
template <class Real>
void join(Real* out, split_matrix inp) {
  const row_shape shape = inp.shape;
  const host_split_matrix from(inp);
  parallel_for(shape.rows, [&](std::int64_t r) {
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      const float scale =
          from.scales[r / split_layout::side * from.layout.column_blocks + c / split_layout::side];
      const std::int64_t at = from.at(r, c);
      if (scale == 0) {
        const auto upper = static_cast<std::uint32_t>(from.high[at]);
        out[r * shape.channels + c] = static_cast<Real>(float_of(upper << 16 | from.low[at]));
      } else {
        const double x = half_value(from.high[at]) +
                         std::ldexp(half_value(from.low[at]), -split_scale::low_exponent);
        const double power = float_of(float_bits(scale) & ~split_scale::has_low);
        out[r * shape.channels + c] = static_cast<Real>(x * power);
      }
    }
  });
}

LLMC_REFERENCE_END
