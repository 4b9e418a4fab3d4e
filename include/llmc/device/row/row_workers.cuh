/// @file
/// Who works on a row: a thread, a warp or a block. What is written over such workers serves all
/// three: worker number `rank()` of `count()` takes elements rank, rank + count and so on, and
/// `sum` and `max` combine what the workers found. All workers must call these, and all get the
/// result. A block may have any number of whole warps.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/reduce.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

class lone_thread {
 public:
  struct storage {};
  static constexpr int rows_per_block(int block_size) { return block_size; }

  __device__ explicit lone_thread(storage&) {}

  __device__ int rank() const { return 0; }
  __device__ int count() const { return 1; }
  __device__ float sum(float value) const { return value; }
  __device__ float max(float value) const { return value; }
};

class whole_warp {
 public:
  struct storage {};
  static constexpr int rows_per_block(int block_size) { return block_size / warp_size; }

  __device__ whole_warp() {}
  __device__ explicit whole_warp(storage&) {}

  __device__ int rank() const { return static_cast<int>(threadIdx.x) % warp_size; }
  __device__ int count() const { return warp_size; }
  __device__ float sum(float value) const { return warp_sum(value); }
  __device__ float max(float value) const { return warp_max(value); }
};

/// Each warp reduces its own values and leaves the result in shared memory; then every warp reduces
/// these. No number is ever added to in shared memory, so there is nothing to clear.
class whole_block {
 public:
  struct storage {
    float of_warp[warp_size];
  };
  static constexpr int rows_per_block(int) { return 1; }

  __device__ explicit whole_block(storage& memory) : memory_(memory) {}

  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ int count() const { return static_cast<int>(blockDim.x); }
  __device__ float sum(float value) const { return reduce(value, 0.0f, plus_operator{}); }
  __device__ float max(float value) const {
    return reduce(value, minus_infinity(), maximum_operator{});
  }

 private:
  template <class Operator>
  __device__ float reduce(float value, float neutral, Operator op) const {
    const int lane = rank() % warp_size;
    const float reduced = warp_reduce(value, op);
    if (lane == 0) memory_.of_warp[rank() / warp_size] = reduced;
    __syncthreads();
    const float mine = lane < count() / warp_size ? memory_.of_warp[lane] : neutral;
    __syncthreads();  // before the next call overwrites it
    return warp_reduce(mine, op);
  }

  storage& memory_;
};

/// Calls `body(row)` for the rows of these workers: with all workers of the grid, once for each.
template <class Workers, class Body>
__device__ __forceinline__ void for_each_row(const Workers& workers, std::int64_t rows, Body body) {
  const std::int64_t step = threads_in_grid() / workers.count();
  for (std::int64_t row = thread_in_grid() / workers.count(); row < rows; row += step) body(row);
}

}  // namespace device
LLMC_NAMESPACE_END
