/// @file
/// The kernel and the launch of layers that treat every element of flat arrays alike.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/pack.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

template <int Width, int BlockSize, class Operation>
__global__ void __launch_bounds__(BlockSize)
    elementwise_kernel(std::int64_t count, Operation operation) {
  device::for_each_pack<Width>(count, device::thread_in_grid(), device::threads_in_grid(),
                               operation);
}

/// Calls `operation(width_constant<W>, first_element)` once for every pack of [0, count), with a
/// thread a pack. `wide` says whether the operation may read 16 bytes at a time.
template <int BlockSize, class Operation>
void launch_elementwise(const char* function, std::int64_t count, bool wide, Operation operation,
                        cudaStream_t stream) {
  with_access_width(wide, [&](auto width) {
    launch({function, ceil_div(count, width() * BlockSize), BlockSize, 0, stream},
           elementwise_kernel<width(), BlockSize, Operation>, count, operation);
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
