/// @file
/// The GELU activation in its tanh form (Hendrycks and Gimpel, "Gaussian Error Linear Units",
/// 2016), which is GPT-2's:
///
///     out = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/elementwise.cuh>
#include <llmc/detail/gelu_forward.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/gelu.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class gelu_forward_variant {
  /// The best for this device and shape.
  automatic,
  /// The naive form: a thread reads one number and writes one. A warp's loads are contiguous, so no
  /// byte is fetched in vain, but each instruction moves only 4 bytes a thread. Not meant to win:
  /// it shows what wider access is worth.
  element_per_thread,
  /// A thread reads 4 numbers, or 1 where the alignment does not allow 4, and writes as many.
  /// Memory bound, and nearly as fast as can be.
  pack_per_thread,
  /// A thread does that four times, and reads everything before it computes: fewer threads keep
  /// the memory busy. On an H100 as fast as pack_per_thread.
  packs_per_thread
};

inline constexpr std::array gelu_forward_variants{
    gelu_forward_variant::automatic, gelu_forward_variant::element_per_thread,
    gelu_forward_variant::pack_per_thread, gelu_forward_variant::packs_per_thread};

constexpr const char* to_string(gelu_forward_variant variant) {
  switch (variant) {
    case gelu_forward_variant::automatic: return "automatic";
    case gelu_forward_variant::element_per_thread: return "element_per_thread";
    case gelu_forward_variant::pack_per_thread: return "pack_per_thread";
    case gelu_forward_variant::packs_per_thread: return "packs_per_thread";
  }
  return "unknown";
}

/// Threads a block.
template <gelu_forward_variant Variant>
inline constexpr int gelu_forward_block_size = 256;

/// Packs a thread.
template <gelu_forward_variant Variant>
inline constexpr int gelu_forward_packs = 4;
template <>
inline constexpr int gelu_forward_packs<gelu_forward_variant::element_per_thread> = 1;
template <>
inline constexpr int gelu_forward_packs<gelu_forward_variant::pack_per_thread> = 1;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
/// GELU of every element; see the top of this file for the formula. Finite inputs give finite
/// outputs, however large; NaN and -infinity give NaN, as by the formula.
///
/// @param[out] out   (count), overwritten; may alias `inp`
/// @param[in]  inp   (count)
///
/// Any alignment. Deterministic. Throws invalid_argument for count < 0 or a null array; cuda_error
/// if the launch fails.
template <gelu_forward_variant Variant = gelu_forward_variant::automatic,
          int BlockSize = gelu_forward_block_size<Variant>>
void gelu_forward(float* out, const float* inp, std::int64_t count, cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "gelu_forward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::gelu_forward";
  checks::require_count(function, count);
  if (count == 0) return;
  checks::require_pointer(function, "out", out);
  checks::require_pointer(function, "inp", inp);
  const bool wide =
      Variant != gelu_forward_variant::element_per_thread && detail::is_16_byte_aligned(out, inp);
  detail::launch_gelu_forward<BlockSize, gelu_forward_packs<Variant>>(function, out, inp, count,
                                                                      wide, stream);
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class gelu_backward_variant {
  /// The best for this device and shape.
  automatic,
  /// The naive form: a thread reads one number of each input and writes one, 4 bytes an
  /// instruction. Not meant to win: it shows what wider access is worth.
  element_per_thread,
  /// A thread reads 4 numbers of each input, or 1 where the alignment does not allow 4, and
  /// writes as many. Memory bound, and nearly as fast as can be.
  pack_per_thread,
  /// A thread does that four times, and reads everything before it computes: fewer threads keep
  /// the memory busy. On an H100 as fast as pack_per_thread.
  packs_per_thread
};

inline constexpr std::array gelu_backward_variants{
    gelu_backward_variant::automatic, gelu_backward_variant::element_per_thread,
    gelu_backward_variant::pack_per_thread, gelu_backward_variant::packs_per_thread};

constexpr const char* to_string(gelu_backward_variant variant) {
  switch (variant) {
    case gelu_backward_variant::automatic: return "automatic";
    case gelu_backward_variant::element_per_thread: return "element_per_thread";
    case gelu_backward_variant::pack_per_thread: return "pack_per_thread";
    case gelu_backward_variant::packs_per_thread: return "packs_per_thread";
  }
  return "unknown";
}

/// Threads a block.
template <gelu_backward_variant Variant>
inline constexpr int gelu_backward_block_size = 256;

/// Packs a thread.
template <gelu_backward_variant Variant>
inline constexpr int gelu_backward_packs = 4;
template <>
inline constexpr int gelu_backward_packs<gelu_backward_variant::element_per_thread> = 1;
template <>
inline constexpr int gelu_backward_packs<gelu_backward_variant::pack_per_thread> = 1;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

struct gelu_backward_operation : elementwise_operation {
  static constexpr int inputs = 2;
  float* dinp;
  const float* dout;
  const float* inp;

  template <int Width>
  __device__ void load(device::pack<Width> (&x)[inputs], std::int64_t first) const {
    x[0] = device::load<Width>(dout + first);
    x[1] = device::load<Width>(inp + first);
  }
  template <int Width>
  __device__ void store(device::pack<Width> (&x)[inputs], std::int64_t first, state) const {
#pragma unroll
    for (int i = 0; i < Width; ++i) x[0][i] *= device::gelu_derivative(x[1][i]);
    device::store(dinp + first, x[0]);
  }
};

}  // namespace detail

/// The gradient of gelu_forward: dinp = dout * gelu'(inp). Finite however large `inp` is.
///
/// @param[out] dinp  (count), overwritten; may alias `dout`
/// @param[in]  dout  (count)
/// @param[in]  inp   (count), the input of the forward pass
///
/// Any alignment. Deterministic. Throws invalid_argument for count < 0 or a null array; cuda_error
/// if the launch fails.
template <gelu_backward_variant Variant = gelu_backward_variant::automatic,
          int BlockSize = gelu_backward_block_size<Variant>>
void gelu_backward(float* dinp, const float* dout, const float* inp, std::int64_t count,
                   cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "gelu_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::gelu_backward";
  checks::require_count(function, count);
  if (count == 0) return;
  checks::require_pointer(function, "dinp", dinp);
  checks::require_pointer(function, "dout", dout);
  checks::require_pointer(function, "inp", inp);

  const bool wide = Variant != gelu_backward_variant::element_per_thread &&
                    detail::is_16_byte_aligned(dinp, dout, inp);
  detail::launch_elementwise<BlockSize, gelu_backward_packs<Variant>>(
      function, count, wide, detail::gelu_backward_operation{{}, dinp, dout, inp}, stream);
}

LLMC_NAMESPACE_END
