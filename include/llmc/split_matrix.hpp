/// @file
/// A matrix in halves: FP32 numbers as two FP16 numbers each, for tensor cores. Plain C++.
///
/// A half has as many digits as TF32, and tensor cores multiply halves twice as fast, in any
/// layout. What halves lack is range. So each block of 64 x 64 numbers has a power of two of its
/// own, by which its largest number becomes 2^14 or a little more:
///
///     x = scale * (high + low / 2^11)        high, low: halves
///
/// high has 11 significant bits and low the next 11. A number that is small in its block loses
/// digits from 2^-27 of the block's largest on: what is kept is always a multiple of 2^-50 of that.
/// Where this would take digits of a whole row or column of a block, halves cannot hold the block.
/// Then it keeps its FP32 bits, which are as many, and products with it are computed in FP32. So
/// a matrix in halves holds infinities, NaN and numbers of any size, and no product needs to look
/// at the FP32 numbers again.
#pragma once

#include <cstddef>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

/// Where a matrix in halves lies: `split_matrix_bytes(shape)` bytes that the caller owns, aligned
/// to 16. llmc::split fills them.
struct split_matrix {
  void* data = nullptr;
  row_shape shape{};
};

/// How a split_matrix lies in its memory, for code that reads or writes one:
///
///     high    (padded_rows, padded_channels) of 16 bits
///     low     the same
///     scales  (row_blocks, column_blocks) of float
///
/// The planes have whole blocks; what is not in the matrix is 0. Both indices are permuted within
/// groups of 16, see place(). So a thread of a tensor core's warp ends up with four consecutive
/// columns of a product, and in a sum over k both operands agree on the order.
struct split_layout {
  static constexpr std::int64_t side = 64;  ///< of a block

  std::int64_t row_blocks;
  std::int64_t column_blocks;

  explicit constexpr split_layout(row_shape shape)
      : row_blocks((shape.rows + side - 1) / side),
        column_blocks((shape.channels + side - 1) / side) {}

  constexpr std::int64_t padded_rows() const { return row_blocks * side; }
  constexpr std::int64_t padded_channels() const { return column_blocks * side; }
  constexpr std::int64_t plane() const { return padded_rows() * padded_channels(); }
  constexpr std::int64_t blocks() const { return row_blocks * column_blocks; }

  /// Where a row or column lies: of each 16, index 4t + 2b + e is at place 8b + 2t + e.
  static constexpr std::int64_t place(std::int64_t index) {
    const std::int64_t in_group = index % 16;
    return index - in_group + 8 * (in_group / 2 % 2) + 2 * (in_group / 4) + in_group % 2;
  }
};

/// What halves can hold, and how a block says what it is. Its scale is
///
///     0                      the block keeps FP32 bits: high has the upper 16, low the lower 16
///     2^e                    none of its numbers has a low part
///     2^e + its last bit     some have
struct split_scale {
  /// The largest number of a block is below 2^most_exponent, else the block keeps FP32 bits.
  static constexpr int most_exponent = 100;
  /// The scale of a block whose numbers are all smaller than 2^(least_exponent + 1).
  static constexpr int least_exponent = -100;
  /// The largest number's high part is at least 2^top_exponent.
  static constexpr int top_exponent = 14;
  static constexpr int low_exponent = 11;  ///< the low part is multiplied by 2^low_exponent
  /// A row or column of a block whose largest number is below 2^-kept_exponent of the block's would
  /// lose digits.
  static constexpr int kept_exponent = 27;
  static constexpr std::uint32_t has_low = 1;  ///< the bit of a scale
};

/// How halves are multiplied.
enum class half_products {
  /// low * high, high * low and high * high: at least as exact as FP32 multiply-adds.
  three,
  /// high * high: 11 significant bits of each number, as TF32.
  one
};

/// The bytes of a matrix in halves. Throws invalid_argument for rows < 0, channels < 1 or a matrix
/// that is too large.
inline std::size_t split_matrix_bytes(row_shape shape) {
  constexpr const char* function = "llmc::split_matrix_bytes";
  checks::require_shape(function, shape);
  const split_layout layout(shape);
  return checks::bytes<std::uint32_t>(function, layout.padded_rows(), layout.padded_channels()) +
         checks::bytes<float>(function, layout.row_blocks, layout.column_blocks);
}

namespace checks {

inline void require_split_matrix(const char* function, const char* argument,
                                 const split_matrix& matrix) {
  constexpr std::size_t alignment = 16;
  require_pointer(function, argument, matrix.data);
  require_aligned(function, argument, matrix.data, alignment);
}

}  // namespace checks

LLMC_TYPES_END
