/// @file
/// Splits an FP32 matrix into halves; see split_matrix.hpp for what that is.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/detail/split/kernel.cuh>
#include <llmc/split_matrix.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

enum class split_variant {
  /// The best for this matrix.
  automatic,
  /// A block of threads keeps 64 x 64 numbers in registers, 16 a thread: it finds their largest
  /// one, then splits and stores them. It reads a float at a time.
  single_loads,
  /// The same by loads of 16 bytes. Where the columns or the alignment do not allow that, this is
  /// single_loads.
  packed_loads
};

inline constexpr std::array split_variants{split_variant::automatic, split_variant::single_loads,
                                           split_variant::packed_loads};

constexpr const char* to_string(split_variant variant) {
  switch (variant) {
    case split_variant::automatic: return "automatic";
    case split_variant::single_loads: return "single_loads";
    case split_variant::packed_loads: return "packed_loads";
  }
  return "unknown";
}

/// Threads a block; the only number that there is.
template <split_variant Variant>
inline constexpr int split_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN

/// Splits a matrix into halves.
///
/// @param[out]    out        overwritten, whole blocks with their padding; must not alias `inp`
/// @param[in]     inp        (rows, channels)
/// @param[in,out] kept_whole null, or a counter on the GPU: raised by the number of blocks
///                           that keep their FP32 bits because halves cannot hold them
///
/// Any alignment of `inp`. Deterministic. Throws invalid_argument for rows < 0, channels < 1, a
/// null array, or memory of `out` that is not aligned to 16 bytes; cuda_error if the launch fails.
template <split_variant Variant = split_variant::automatic,
          int BlockSize = split_block_size<Variant>>
void split(split_matrix out, const float* inp, std::uint64_t* kept_whole, cudaStream_t stream) {
  static_assert(BlockSize == split_block_size<Variant>, "split: BlockSize must be 256");
  constexpr const char* function = "llmc::split";
  checks::require_shape(function, out.shape);
  if (out.shape.rows == 0) return;
  checks::require_split_matrix(function, "out", out);
  checks::require_pointer(function, "inp", inp);
  const bool wide = Variant != split_variant::single_loads &&
                    detail::is_16_byte_accessible(out.shape.channels, inp);
  const detail::split_planes to(out);
  detail::with_access_width(wide, [&](auto width) {
    detail::launch({function, split_layout(out.shape).blocks(), BlockSize, 0, stream},
                   detail::split_kernel<width()>, to, inp, out.shape, kept_whole);
  });
}

LLMC_NAMESPACE_END
