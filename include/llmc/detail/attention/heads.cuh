/// @file
/// Moves vectors between two layouts. In that of a linear layer the heads of one position lie side
/// by side; in that of batched products the positions of one head do.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>
#include <limits>
#include <string>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/error.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

enum class head_layout {
  by_position,  ///< (B, T, parts, NH, HS)
  by_head       ///< (parts, B, NH, T, HS)
};

/// Copies `parts` (3 for qkv, 1 for the output) from one layout to the other.
template <head_layout To, int Width>
__global__ void __launch_bounds__(1024)
    move_heads_kernel(float* out, const float* inp, attention_shape shape, int parts) {
  const std::int64_t T = shape.sequence, NH = shape.heads, HS = shape.head_size;
  const std::int64_t packs = shape.batch * T * parts * NH * HS / Width;
  for (std::int64_t i = device::thread_in_grid(); i < packs; i += device::threads_in_grid()) {
    const std::int64_t by_position = i * Width;
    std::int64_t rest = by_position;
    const std::int64_t d = rest % HS;
    rest /= HS;
    const std::int64_t h = rest % NH;
    rest /= NH;
    const std::int64_t part = rest % parts;
    rest /= parts;
    const std::int64_t t = rest % T;
    const std::int64_t b = rest / T;
    const std::int64_t by_head = (((part * shape.batch + b) * NH + h) * T + t) * HS + d;
    const bool to_head = To == head_layout::by_head;
    device::store<Width>(out + (to_head ? by_head : by_position),
                         device::load<Width>(inp + (to_head ? by_position : by_head)));
  }
}

template <head_layout To, int Width, int BlockSize>
void move_heads_by_threads(const char* function, float* out, const float* inp,
                           attention_shape shape, int parts, cudaStream_t stream) {
  const std::int64_t count = checks::checked_product(function, shape.batch, shape.sequence, parts,
                                                     shape.heads, shape.head_size);
  launch({function, ceil_div(count / Width, BlockSize), BlockSize, 0, stream},
         move_heads_kernel<To, Width>, out, inp, shape, parts);
}

/// 16 bytes a thread where shape and pointers allow it.
template <head_layout To, int BlockSize>
void move_heads(const char* function, float* out, const float* inp, attention_shape shape,
                int parts, cudaStream_t stream) {
  with_access_width(is_16_byte_accessible(shape.head_size, out, inp), [&](auto width) {
    move_heads_by_threads<To, width(), BlockSize>(function, out, inp, shape, parts, stream);
  });
}

// ---- a block for each position ----

/// Floats of one position, in all parts and heads.
inline std::int64_t position_floats(attention_shape shape, int parts) {
  return parts * shape.heads * shape.head_size;
}
inline constexpr std::int64_t most_position_floats = (std::numeric_limits<std::int32_t>::max)();

/// In the layout by position a block moves one run of floats; in the layout by head its vectors lie
/// a whole head apart.
template <head_layout To, int Width>
__global__ void __launch_bounds__(1024)
    move_positions_kernel(float* out, const float* inp, attention_shape shape, int parts) {
  const std::int64_t T = shape.sequence, NH = shape.heads, HS = shape.head_size;
  const auto heads = static_cast<unsigned>(NH), head_size = static_cast<unsigned>(HS);
  const unsigned floats = static_cast<unsigned>(parts) * heads * head_size;
  for (std::int64_t position = blockIdx.x; position < shape.batch * T; position += gridDim.x) {
    const std::int64_t b = position / T, t = position % T;
    const std::int64_t first_by_position = position * floats;
    const std::int64_t first_by_head = (b * NH * T + t) * HS;
    for (unsigned i = threadIdx.x * Width; i < floats; i += blockDim.x * Width) {
      const unsigned vector = i / head_size;
      const unsigned part = vector / heads;
      const std::int64_t head = part * shape.batch * NH + (vector - part * heads);
      const std::int64_t by_head = first_by_head + head * T * HS + (i - vector * head_size);
      const std::int64_t by_position = first_by_position + i;
      const bool to_head = To == head_layout::by_head;
      device::store<Width>(out + (to_head ? by_head : by_position),
                           device::load<Width>(inp + (to_head ? by_position : by_head)));
    }
  }
}

template <head_layout To>
void move_heads_by_blocks(const char* function, float* out, const float* inp, attention_shape shape,
                          int parts, int block_size, cudaStream_t stream) {
  with_access_width(is_16_byte_accessible(shape.head_size, out, inp), [&](auto width) {
    launch({function, shape.batch * shape.sequence, block_size, 0, stream},
           move_positions_kernel<To, width()>, out, inp, shape, parts);
  });
}

inline void require_countable_position(const char* function, const char* variant,
                                       attention_shape shape, int parts) {
  const std::int64_t floats = position_floats(shape, parts);
  if (floats <= most_position_floats) return;
  throw unsupported(std::string(function) + ": the variant " + variant + " takes at most " +
                    std::to_string(most_position_floats) + " floats a position, got " +
                    std::to_string(floats));
}

}  // namespace detail
LLMC_NAMESPACE_END
