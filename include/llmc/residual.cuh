/// @file
/// The residual add:
///
///     out = inp1 + inp2
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <array>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/elementwise.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/detail/residual_forward.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class residual_forward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread adds one number, 4 bytes an instruction. Wins nowhere: it shows what wider access is
  /// worth.
  element_per_thread,
  /// A thread adds 4 numbers, or 1 where the alignment does not allow 4. Bound by memory, and
  /// nearly as fast as can be.
  pack_per_thread,
  /// A thread does that twice, and reads everything before it adds: fewer threads keep the memory
  /// busy. On an H100 as fast as pack_per_thread.
  packs_per_thread
};

inline constexpr std::array residual_forward_variants{
    residual_forward_variant::automatic, residual_forward_variant::element_per_thread,
    residual_forward_variant::pack_per_thread, residual_forward_variant::packs_per_thread};

constexpr const char* to_string(residual_forward_variant variant) {
  switch (variant) {
    case residual_forward_variant::automatic: return "automatic";
    case residual_forward_variant::element_per_thread: return "element_per_thread";
    case residual_forward_variant::pack_per_thread: return "pack_per_thread";
    case residual_forward_variant::packs_per_thread: return "packs_per_thread";
  }
  return "unknown";
}

/// Threads a block.
template <residual_forward_variant Variant>
inline constexpr int residual_forward_block_size = 256;

/// Packs a thread.
template <residual_forward_variant Variant>
inline constexpr int residual_forward_packs = 2;
template <>
inline constexpr int residual_forward_packs<residual_forward_variant::element_per_thread> = 1;
template <>
inline constexpr int residual_forward_packs<residual_forward_variant::pack_per_thread> = 1;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN

/// Adds two arrays: out = inp1 + inp2.
///
/// @param[out] out   (count), overwritten; may alias `inp1`, `inp2` or both
/// @param[in]  inp1  (count)
/// @param[in]  inp2  (count)
///
/// Any alignment. Deterministic. Throws invalid_argument for count < 0 or a null array; cuda_error
/// if the launch fails.
template <residual_forward_variant Variant = residual_forward_variant::automatic,
          int BlockSize = residual_forward_block_size<Variant>>
void residual_forward(float* out, const float* inp1, const float* inp2, std::int64_t count,
                      cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "residual_forward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::residual_forward";
  checks::require_count(function, count);
  if (count == 0) return;
  checks::require_pointer(function, "out", out);
  checks::require_pointer(function, "inp1", inp1);
  checks::require_pointer(function, "inp2", inp2);

  const bool wide = Variant != residual_forward_variant::element_per_thread &&
                    detail::is_16_byte_aligned(out, inp1, inp2);
  detail::launch_elementwise<BlockSize, residual_forward_packs<Variant>>(
      function, count, wide, detail::residual_forward_operation{{}, out, inp1, inp2}, stream);
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class residual_backward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread copies or adds one number to both gradients, 4 bytes an instruction. Wins nowhere: it
  /// shows what wider access is worth.
  element_per_thread,
  /// A thread copies or adds 4 numbers to both gradients, or 1 where the alignment does not allow
  /// 4. Bound by memory, and nearly as fast as can be.
  pack_per_thread,
  /// A thread does that twice, and reads everything before it writes: fewer threads keep the memory
  /// busy. On an H100 as fast as pack_per_thread.
  packs_per_thread
};

inline constexpr std::array residual_backward_variants{
    residual_backward_variant::automatic, residual_backward_variant::element_per_thread,
    residual_backward_variant::pack_per_thread, residual_backward_variant::packs_per_thread};

constexpr const char* to_string(residual_backward_variant variant) {
  switch (variant) {
    case residual_backward_variant::automatic: return "automatic";
    case residual_backward_variant::element_per_thread: return "element_per_thread";
    case residual_backward_variant::pack_per_thread: return "pack_per_thread";
    case residual_backward_variant::packs_per_thread: return "packs_per_thread";
  }
  return "unknown";
}

/// Threads a block.
template <residual_backward_variant Variant>
inline constexpr int residual_backward_block_size = 256;

/// Packs a thread.
template <residual_backward_variant Variant>
inline constexpr int residual_backward_packs = 2;
template <>
inline constexpr int residual_backward_packs<residual_backward_variant::element_per_thread> = 1;
template <>
inline constexpr int residual_backward_packs<residual_backward_variant::pack_per_thread> = 1;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

struct residual_backward_operation : elementwise_operation {
  static constexpr int inputs = 3;
  float* dinp1;
  float* dinp2;
  const float* dout;
  bool add;

  template <int Width>
  __device__ void load(device::pack<Width> (&x)[inputs], std::int64_t first) const {
    x[0] = device::load<Width>(dout + first);
    if (add) {
      x[1] = device::load<Width>(dinp1 + first);
      x[2] = device::load<Width>(dinp2 + first);
    }
  }
  template <int Width>
  __device__ void store(device::pack<Width> (&x)[inputs], std::int64_t first, state) const {
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      x[1][i] = add ? x[1][i] + x[0][i] : x[0][i];
      x[2][i] = add ? x[2][i] + x[0][i] : x[0][i];
    }
    device::store(dinp1 + first, x[1]);
    device::store(dinp2 + first, x[2]);
  }
};

}  // namespace detail

/// The gradients of residual_forward: both inputs get dout.
///
/// @param[in,out] dinp1  (count), overwritten or added to as `mode` says; where overwritten, may
///                       alias `dout`
/// @param[in,out] dinp2  (count), likewise
/// @param[in]     dout   (count)
///
/// Any alignment. Deterministic. Throws invalid_argument for count < 0 or a null array; cuda_error
/// if the launch fails.
template <residual_backward_variant Variant = residual_backward_variant::automatic,
          int BlockSize = residual_backward_block_size<Variant>>
void residual_backward(float* dinp1, float* dinp2, const float* dout, std::int64_t count,
                       accumulation mode, cudaStream_t stream) {
  static_assert(detail::is_block_size(BlockSize),
                "residual_backward: BlockSize must be a multiple of 32 between 32 and 1024");
  constexpr const char* function = "llmc::residual_backward";
  checks::require_count(function, count);
  if (count == 0) return;
  checks::require_pointer(function, "dinp1", dinp1);
  checks::require_pointer(function, "dinp2", dinp2);
  checks::require_pointer(function, "dout", dout);

  const bool wide = Variant != residual_backward_variant::element_per_thread &&
                    detail::is_16_byte_aligned(dinp1, dinp2, dout);
  detail::launch_elementwise<BlockSize, residual_backward_packs<Variant>>(
      function, count, wide,
      detail::residual_backward_operation{{}, dinp1, dinp2, dout, mode == accumulation::add},
      stream);
}

LLMC_NAMESPACE_END
