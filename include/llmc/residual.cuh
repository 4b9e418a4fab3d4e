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
#include <llmc/device/pack.cuh>
#include <llmc/types.hpp>

// ---- forward ----

LLMC_TYPES_BEGIN

enum class residual_forward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread adds 4 numbers, or 1 where the alignment does not allow 4. Memory bound, so it wins
  /// everywhere.
  pack_per_thread
};

inline constexpr std::array residual_forward_variants{residual_forward_variant::automatic,
                                                      residual_forward_variant::pack_per_thread};

constexpr const char* to_string(residual_forward_variant variant) {
  switch (variant) {
    case residual_forward_variant::automatic: return "automatic";
    case residual_forward_variant::pack_per_thread: return "pack_per_thread";
  }
  return "unknown";
}

/// Threads a block; not yet measured.
template <residual_forward_variant Variant>
inline constexpr int residual_forward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

struct residual_forward_operation {
  float* out;
  const float* inp1;
  const float* inp2;

  template <int Width>
  __device__ void operator()(device::width_constant<Width>, std::int64_t first) const {
    auto sum = device::load<Width>(inp1 + first);
    const auto other = device::load<Width>(inp2 + first);
#pragma unroll
    for (int i = 0; i < Width; ++i) sum[i] += other[i];
    device::store<Width>(out + first, sum);
  }
};

}  // namespace detail

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

  detail::launch_elementwise<BlockSize>(
      function, count, detail::is_16_byte_aligned(out, inp1, inp2),
      detail::residual_forward_operation{out, inp1, inp2}, stream);
}

LLMC_NAMESPACE_END

// ---- backward ----

LLMC_TYPES_BEGIN

enum class residual_backward_variant {
  /// The best for this device and shape.
  automatic,
  /// A thread copies or adds 4 numbers to both gradients, or 1 where the alignment does not
  /// allow 4.
  /// Memory bound, so it wins everywhere.
  pack_per_thread
};

inline constexpr std::array residual_backward_variants{residual_backward_variant::automatic,
                                                       residual_backward_variant::pack_per_thread};

constexpr const char* to_string(residual_backward_variant variant) {
  switch (variant) {
    case residual_backward_variant::automatic: return "automatic";
    case residual_backward_variant::pack_per_thread: return "pack_per_thread";
  }
  return "unknown";
}

/// Threads a block; not yet measured.
template <residual_backward_variant Variant>
inline constexpr int residual_backward_block_size = 256;

LLMC_TYPES_END

LLMC_NAMESPACE_BEGIN
namespace detail {

struct residual_backward_operation {
  float* dinp1;
  float* dinp2;
  const float* dout;
  bool add;

  template <int Width>
  __device__ void operator()(device::width_constant<Width>, std::int64_t first) const {
    const auto d = device::load<Width>(dout + first);
    device::store_or_add<Width>(dinp1 + first, d, add);
    device::store_or_add<Width>(dinp2 + first, d, add);
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

  detail::launch_elementwise<BlockSize>(
      function, count, detail::is_16_byte_aligned(dinp1, dinp2, dout),
      detail::residual_backward_operation{dinp1, dinp2, dout, mode == accumulation::add}, stream);
}

LLMC_NAMESPACE_END
