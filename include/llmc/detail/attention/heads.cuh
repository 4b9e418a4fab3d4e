/// @file
/// Moves vectors between the layout of a linear layer, where the heads of one position lie side by
/// side, and one where the positions of one head do, as batched products want it.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/pack.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

enum class head_layout {
  by_position,  ///< (B, T, parts, NH, HS)
  by_head       ///< (parts, B, NH, T, HS)
};

/// Copies `parts` (3 for qkv, 1 for the output) from one layout to the other.
template <head_layout To, int Width, int BlockSize>
__global__ void __launch_bounds__(BlockSize)
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

template <head_layout To, int BlockSize>
void move_heads(const char* function, float* out, const float* inp, attention_shape shape,
                int parts, cudaStream_t stream) {
  const std::int64_t count =
      checks::product(function, shape.batch, shape.sequence, parts, shape.heads, shape.head_size);
  with_access_width(is_16_byte_accessible(shape.head_size, out, inp), [&](auto width) {
    launch({function, ceil_div(count / width(), BlockSize), BlockSize, 0, stream},
           move_heads_kernel<To, width(), BlockSize>, out, inp, shape, parts);
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
