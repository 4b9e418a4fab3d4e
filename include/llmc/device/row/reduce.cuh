/// @file
/// Sums and maxima over a warp or a block. Every thread of it gets the result, all the same bits.
/// The order of the additions depends on the size only, so the bits repeat.
///
/// Cooperative groups and CUB have the same, but would add 5 s to the compilation of every file.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <llmc/detail/namespace.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

inline constexpr int warp_size = 32;

/// The true -infinity, where every maximum starts: never a finite stand-in, because all scores of a
/// row may be below it.
__device__ __forceinline__ float minus_infinity() {
  return __int_as_float(static_cast<int>(0xff800000));
}

/// An operator has a neutral number, which changes no other.
struct plus_operator {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
  __device__ static float neutral() { return 0.0f; }
};
/// Of a number and a NaN it is the number, whichever comes first.
struct maximum_operator {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return (max)(a, b);
  }
  __device__ static float neutral() { return minus_infinity(); }
};

/// Reduces over each run of `Lanes` neighbours, a power of two, in a full warp; all 32 threads must
/// call it. In each step two lanes exchange what they have, so the operator must be commutative.
template <int Lanes = warp_size, class T, class Operator>
__device__ __forceinline__ T warp_reduce(T value, Operator op) {
#pragma unroll
  for (int distance = Lanes / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  return value;
}
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  return warp_reduce(value, plus_operator{});
}
template <class T>
__device__ __forceinline__ T warp_max(T value) {
  return warp_reduce(value, maximum_operator{});
}

/// A block size that is known at run time only: any number of whole warps.
inline constexpr int any_block_size = 0;

/// Reduces over a block of BlockSize threads in one dimension. The object owns its barriers: it may
/// be used again at once. No number is ever added to in shared memory, so there is nothing to
/// clear.
///
///     __shared__ typename block_reducer<float, 256>::storage storage;
///     const float total = block_reducer<float, 256>(storage).sum(value);
template <class T, int BlockSize>
class block_reducer {
  static constexpr bool any_size = BlockSize == any_block_size;
  static constexpr int warps = any_size ? warp_size : BlockSize / warp_size;  ///< at most

 public:
  struct storage {
    T of_warp[warps];
  };

  __device__ explicit block_reducer(storage& memory) : memory_(memory) {}

  template <class Operator>
  __device__ T reduce(T value, Operator op) {
    const T own = warp_reduce(value, op);
    if constexpr (warps == 1) return own;
    const int thread = static_cast<int>(threadIdx.x);
    if (thread % warp_size == 0) memory_.of_warp[thread / warp_size] = own;
    __syncthreads();
    const T result = reduce_warps(op);
    __syncthreads();  // before the next use overwrites them
    return result;
  }
  __device__ T sum(T value) { return reduce(value, plus_operator{}); }
  __device__ T(max)(T value) { return reduce(value, maximum_operator{}); }

 private:
  template <class Operator>
  __device__ T reduce_warps(Operator op) const {
    if constexpr (any_size) {
      const unsigned lane = threadIdx.x % warp_size;
      const bool has_warp = lane < blockDim.x / warp_size;
      return warp_reduce(has_warp ? memory_.of_warp[lane] : op.neutral(), op);
    } else if constexpr ((warps & (warps - 1)) == 0) {
      return warp_reduce<warps>(memory_.of_warp[threadIdx.x % warps], op);
    } else {
      T result = memory_.of_warp[0];
#pragma unroll
      for (int w = 1; w < warps; ++w) result = op(result, memory_.of_warp[w]);
      return result;
    }
  }

  storage& memory_;
};

}  // namespace device
LLMC_NAMESPACE_END
