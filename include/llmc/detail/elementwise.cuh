/// @file
/// The kernel and the launch of layers that treat every element of flat arrays alike.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The base of what is done to every element. An operation has
///
///  - `inputs`: how many numbers it reads for an element;
///  - `load(pack<Width> (&x)[inputs], first)`: reads the numbers of the pack that begins at
///    `first`;
///  - `begin(state&)`: after the loads, finds out what is the same for all elements; false if
///    nothing is to be written;
///  - `store(x, first, state)`: computes and writes.
struct elementwise_operation {
  struct state {};
  __device__ bool begin(state&) const { return true; }
};

/// Does the operation to `Packs` packs, `step` elements apart, except those that begin at `end` or
/// later. All loads are on their way before anything else is done.
template <int Width, int Packs, class Operation>
__device__ __forceinline__ void elementwise_packs(const Operation& operation, std::int64_t first,
                                                  std::int64_t step, std::int64_t end) {
  device::pack<Width> x[Packs][Operation::inputs];
#pragma unroll
  for (int j = 0; j < Packs; ++j) {
    if (first + j * step < end) operation.load(x[j], first + j * step);
  }
  typename Operation::state state;
  if (!operation.begin(state)) return;
#pragma unroll
  for (int j = 0; j < Packs; ++j) {
    if (first + j * step < end) operation.store(x[j], first + j * step, state);
  }
}

template <int Width, int Packs, int BlockSize, class Operation>
__global__ void __launch_bounds__(BlockSize)
    elementwise_kernel(std::int64_t count, const __grid_constant__ Operation operation) {
  constexpr std::int64_t step = BlockSize * Width;
  const std::int64_t end = count / Width * Width;
  for (std::int64_t first = blockIdx.x * (Packs * step) + threadIdx.x * Width; first < end;
       first += gridDim.x * (Packs * step)) {
    elementwise_packs<Width, Packs>(operation, first, step, end);
  }
  if constexpr (Width > 1) {
    const std::int64_t i = end + device::thread_in_grid();
    if (i < count) elementwise_packs<1, 1>(operation, i, 1, count);
  }
}

/// Does `operation` to all elements of [0, count), `Packs` packs a thread. `wide` says whether it
/// may read 16 bytes at a time.
template <int BlockSize, int Packs, class Operation>
void launch_elementwise(const char* function, std::int64_t count, bool wide, Operation operation,
                        cudaStream_t stream) {
  with_access_width(wide, [&](auto width) {
    launch({function, ceil_div(count, Packs * width() * BlockSize), BlockSize, 0, stream},
           elementwise_kernel<width(), Packs, BlockSize, Operation>, count, operation);
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
