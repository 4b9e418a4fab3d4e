/// @file
/// The first rungs: every result reads its own row and column from global memory.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/ladder/problem.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/operand.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/device/sum_in_parts.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// A thread owns a result; neighbours own neighbours in a row. Going forward each walks along its
/// own row of the weights, so that at any time a warp's loads are 32 lines apart:
///
///     lane 0   weight[o]       x . . . . . .
///     lane 1   weight[o + 1]   x . . . . . .      32 places for 32 floats
///     ...
///
/// In the gradients' products the second operand lies the other way, and lanes read neighbours.
template <class Layouts, int MostThreads>
__global__ void __launch_bounds__(MostThreads) naive_product_kernel(rung_problem p) {
  for (std::int64_t i = device::thread_in_grid(); i < p.rows * p.columns;
       i += device::threads_in_grid()) {
    const std::int64_t row = i / p.columns;
    const std::int64_t column = i % p.columns;
    const float sum = device::sum_in_parts(0, p.inner, 1, [&](std::int64_t k) {
      return *device::element<Layouts::first>(p.first, row, k) *
             *device::element<Layouts::second>(p.second, column, k);
    });
    put_sum(p, row, column, sum);
  }
}

/// A warp owns a result and takes 32 terms of it at a time. Their factors lie side by side:
///
///     lanes 0..31    inp[r]       x x x x x ... x . . .     one line each,
///                    weight[o]    x x x x x ... x . . .     32 floats
template <int MostThreads>
__global__ void __launch_bounds__(MostThreads) coalesced_product_kernel(rung_problem p) {
  const int lane = static_cast<int>(threadIdx.x) % device::warp_size;
  for (std::int64_t i = device::thread_in_grid() / device::warp_size; i < p.rows * p.columns;
       i += device::threads_in_grid() / device::warp_size) {
    const std::int64_t row = i / p.columns;
    const std::int64_t column = i % p.columns;
    const float part = device::sum_in_parts(lane, p.inner, device::warp_size, [&](std::int64_t k) {
      return *device::element<products::layout::inner_first>(p.first, row, k) *
             *device::element<products::layout::inner_first>(p.second, column, k);
    });
    const float sum = device::warp_sum(part);
    if (lane == 0) put_sum(p, row, column, sum);
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
