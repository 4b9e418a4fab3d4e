/// @file
/// Sums and maxima over a warp or a block, whose result every thread of the group gets. Thin
/// wrappers over cooperative groups and CUB: the order of the additions is fixed by the group's
/// size, so the bits repeat.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/block/block_reduce.cuh>

#include <llmc/detail/namespace.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

inline constexpr int warp_size = 32;

/// The true -infinity, where every maximum starts: never a finite stand-in, which a row of very
/// small scores would pass.
__device__ __forceinline__ float minus_infinity() {
  return __int_as_float(static_cast<int>(0xff800000));
}

struct plus_operator {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct maximum_operator {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

/// Reduces over the 32 threads of a full warp; all of them must call it.
template <class T, class Operator>
__device__ __forceinline__ T warp_reduce(T value, Operator op) {
  namespace cg = cooperative_groups;
  return cg::reduce(cg::tiled_partition<warp_size>(cg::this_thread_block()), value, op);
}
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  return warp_reduce(value, plus_operator{});
}
template <class T>
__device__ __forceinline__ T warp_max(T value) {
  return warp_reduce(value, maximum_operator{});
}

/// Reduces over a block of BlockSize threads in one dimension. The object owns its barriers: it may
/// be used again at once.
///
///     __shared__ typename block_reducer<float, 256>::storage storage;
///     const float total = block_reducer<float, 256>(storage).sum(value);
template <class T, int BlockSize>
class block_reducer {
  using implementation = cub::BlockReduce<T, BlockSize, cub::BLOCK_REDUCE_WARP_REDUCTIONS>;

 public:
  struct storage {
    typename implementation::TempStorage temporary;
    T result;
  };

  __device__ explicit block_reducer(storage& memory) : memory_(memory) {}

  template <class Operator>
  __device__ T reduce(T value, Operator op) {
    const T reduced = implementation(memory_.temporary).Reduce(value, op);
    if (threadIdx.x == 0) memory_.result = reduced;
    __syncthreads();
    const T result = memory_.result;
    __syncthreads();  // before the next use overwrites `result`
    return result;
  }
  __device__ T sum(T value) { return reduce(value, plus_operator{}); }
  __device__ T max(T value) { return reduce(value, maximum_operator{}); }

 private:
  storage& memory_;
};

}  // namespace device
LLMC_NAMESPACE_END
