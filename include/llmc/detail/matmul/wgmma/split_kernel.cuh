/// @file
/// The splitting wgmma kernel: its consumers, and how they store a tile's sums. splitter.cuh has
/// its other half, and says what the kernel does as a whole.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/matmul/epilogue.cuh>
#include <llmc/detail/matmul/exact_sums.cuh>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/matmul/wgmma/splitter.cuh>
#include <llmc/detail/matmul/wgmma/tile_walk.cuh>
#include <llmc/detail/matmul/wgmma/turns.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/copy_async.cuh>
#include <llmc/device/memory/mbarrier.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/memory/tensor_copy.cuh>
#include <llmc/device/tensor_core/precision.cuh>
#include <llmc/device/tensor_core/wgmma.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

// ---- the consumers ----

/// What a thread of a consumer is: of the 16 rows of its warp it has row_order(g) and the row
/// `row_step` further on.
template <class Tiles>
struct split_consumer {
  static constexpr int row_step = Tiles::inner_first_1 ? 8 : 1;

  int group = static_cast<int>(threadIdx.x) / 128;
  int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  int g = static_cast<int>(threadIdx.x) % 32 / 4;
  int t = static_cast<int>(threadIdx.x) % 4;

  __device__ __forceinline__ int row_order() const {
    return Tiles::inner_first_1 ? 4 * (g % 2) + g / 2 : 2 * g;
  }
  /// The first row of its warp in row block m of a tile.
  __device__ __forceinline__ int warp_row(int m) const {
    return (group * Tiles::row_blocks + m) * 64 + warp * 16;
  }
  /// The row in the matrix of the thread's row number h, 0 or 1, in row block m.
  __device__ __forceinline__ int row(const tile_part& part, int m, int h) const {
    return part.row * Tiles::rows + warp_row(m) + row_order() + row_step * h;
  }
};

/// A thread's share of inp1's chunk: [row block][step][register of the instruction].
template <class Tiles>
using first_values = float[Tiles::row_blocks][4][4];

/// Loads a thread's share of a chunk of inp1. Neighbouring g differ in bit 2 of the row, or in the
/// chunk they read, so that each load of the warp touches all banks equally.
template <class Tiles>
__device__ __forceinline__ void load_values(first_values<Tiles>& x,
                                            const split_memory<Tiles>& memory, int stage,
                                            const split_consumer<Tiles>& self) {
#pragma unroll
  for (int m = 0; m < Tiles::row_blocks; ++m) {
    const int row = self.warp_row(m);
    const std::uint32_t box = memory.first(stage, row / 32);
    if constexpr (Tiles::inner_first_1) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int in_box = row % 32 + 8 * h + self.row_order();
          const float4 v =
              device::load_shared_4(box + device::swizzled_128(in_box, 4 * c + self.t));
          x[m][2 * c][h] = v.x;
          x[m][2 * c][2 + h] = v.y;
          x[m][2 * c + 1][h] = v.z;
          x[m][2 * c + 1][2 + h] = v.w;
        }
      }
    } else {
#pragma unroll
      for (int s = 0; s < 4; ++s) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int in_box = row % 32 + self.row_order();
          const std::uint32_t at =
              device::swizzled_128(k_order<Tiles>(s, half, self.t), in_box / 4) +
              static_cast<std::uint32_t>(4 * (in_box % 4));
          const float2 v = device::load_shared_2(box + at);
          x[m][s][2 * half] = v.x;
          x[m][s][2 * half + 1] = v.y;
        }
      }
    }
  }
}

template <class Tiles>
using first_fragments = device::operand_fragment<Tiles::arithmetic, 4>[Tiles::row_blocks][4];

template <class Tiles>
__device__ __forceinline__ void split_values(first_fragments<Tiles>& a,
                                             const first_values<Tiles>& x) {
#pragma unroll
  for (int m = 0; m < Tiles::row_blocks; ++m) {
#pragma unroll
    for (int s = 0; s < 4; ++s) a[m][s] = Tiles::traits::split(x[m][s]);
  }
}

/// Begins the products of a chunk. For tf32x3 (`fresh` only): low * high, high * low, then
/// high * high.
template <class Tiles>
__device__ __forceinline__ void multiply_chunk(float (&sums)[Tiles::row_blocks][Tiles::sums],
                                               float (&fresh)[Tiles::sums],
                                               const first_fragments<Tiles>& a,
                                               std::uint32_t second) {
  const std::uint64_t high = device::wgmma_tile(second);
  device::begin_wgmma();
  if constexpr (Tiles::x3) {
    const std::uint64_t low = device::wgmma_tile(second + Tiles::second_bytes);
    device::wgmma_tf32<false>(fresh, a[0][0].low, high);
    device::wgmma_tf32<true>(fresh, a[0][0].high, low);
#pragma unroll
    for (int s = 1; s < 4; ++s) {
      device::wgmma_tf32<true>(fresh, a[0][s].low, high + 2 * s);
      device::wgmma_tf32<true>(fresh, a[0][s].high, low + 2 * s);
    }
#pragma unroll
    for (int s = 0; s < 4; ++s) device::wgmma_tf32<true>(fresh, a[0][s].high, high + 2 * s);
  } else {
#pragma unroll
    for (int m = 0; m < Tiles::row_blocks; ++m) {
#pragma unroll
      for (int s = 0; s < 4; ++s) device::wgmma_tf32<true>(sums[m], a[m][s].high, high + 2 * s);
    }
  }
  device::commit_wgmma();
}

// ---- the sums of a tile ----

/// Shared memory in which the consumers' warps exchange the sums of their columns.
inline constexpr int column_sum_exchange_floats = 8 * 128;

/// Stores the sums over the tile's 128 rows of each of its 128 columns. own[i][e] is a thread's
/// share of the four columns from 32 * i + 4t + 16 * e on; the 8 consumer warps add up theirs.
template <class Consumer>
__device__ __forceinline__ void store_column_sums(const wgmma_problem& p, const tile_part& part,
                                                  device::pack<4> (&own)[4][2],
                                                  const Consumer& self, float* exchange) {
  float* const warp_sums = exchange + (self.group * 4 + self.warp) * 128;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2) {  // over g
          own[i][e][j] += __shfl_xor_sync(0xffffffffu, own[i][e][j], distance);
        }
      }
      if (self.g == 0) device::store<4>(warp_sums + 32 * i + 4 * self.t + 16 * e, own[i][e]);
    }
  }
  constexpr int barrier = 5;
  device::synchronise_some(barrier, 256);
  const int column = static_cast<int>(threadIdx.x);
  if (column < 128 && part.column * 128 + column < p.columns) {
    float total = 0.0f;
#pragma unroll
    for (int warp = 0; warp < 8; ++warp) total += exchange[warp * 128 + column];
    p.to.column_sums[std::int64_t{part.row} * p.columns + part.column * 128 + column] = total;
  }
  device::synchronise_some(barrier, 256);  // before the next tile's sums
}

/// Stores a consumer thread's sums of a tile. Sum 16i + 4j + 2h + e of row block m is for row
/// self.row(part, m, h) and column 32i + 4t + 16e + j: four consecutive columns in four consecutive
/// threads.
///
/// The bias and the other matrix are loaded for two i at a time, before anything is stored: loads
/// cannot pass stores that may alias them, and one by one they would wait for memory 16 times.
template <epilogue_kind Kind, class Tiles, class Consumer>
__device__ __forceinline__ void store_tile_as(const wgmma_problem& p,
                                              const float (&sums)[Tiles::row_blocks][Tiles::sums],
                                              const tile_part& part, const Consumer& self,
                                              float* exchange) {
  constexpr bool sums_columns = Tiles::has_column_sums && Kind == epilogue_kind::gelu_gradient;
  const int first_column = part.column * Tiles::columns + 4 * self.t;
  device::pack<4> column_sums[4][2] = {};
#pragma unroll
  for (int m = 0; m < Tiles::row_blocks; ++m) {
#pragma unroll
    for (int pair = 0; pair < Tiles::columns / 32; pair += 2) {
      const auto for_each = [&](auto body) {  // i, h, e of this pair, inside the matrix
#pragma unroll
        for (int i = pair; i < pair + 2; ++i) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int column = first_column + 32 * i + 16 * e;
            if (column >= p.columns) continue;
#pragma unroll
            for (int h = 0; h < 2; ++h) {
              const int row = self.row(part, m, h);
              if (row < p.rows) body(i, h, e, std::int64_t{row} * p.to.stride + column);
            }
          }
        }
      };
      device::pack<4> bias[2][2] = {};
      device::pack<4> other[2][2][2] = {};
      if (p.to.bias != nullptr) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int column = first_column + 32 * (pair + i) + 16 * e;
            if (column < p.columns) bias[i][e] = device::load<4>(p.to.bias + column);
          }
        }
      }
      for_each([&](int i, int h, int e, std::int64_t at) {
        other[i - pair][h][e] = load_other<Kind, 4>(p.to, at);
      });
      for_each([&](int i, int h, int e, std::int64_t at) {
        device::pack<4> x;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          x[j] = sums[m][16 * i + 4 * j + 2 * h + e] + bias[i - pair][e][j];
        }
        x = finish_sums<Kind, 4>(p.to, at, x, other[i - pair][h][e]);
        if constexpr (sums_columns) {
#pragma unroll
          for (int j = 0; j < 4; ++j) column_sums[i][e][j] += x[j];
        }
      });
    }
  }
  if constexpr (sums_columns) {
    if (p.to.column_sums != nullptr) store_column_sums(p, part, column_sums, self, exchange);
  }
}

template <class Tiles, class Consumer>
__device__ __forceinline__ void store_tile(const wgmma_problem& p,
                                           float (&sums)[Tiles::row_blocks][Tiles::sums],
                                           const tile_part& part, const Consumer& self,
                                           float* exchange) {
  if constexpr (Tiles::x3) {
    const int first_column = part.column * Tiles::columns + 4 * self.t;
#pragma unroll
    for (int m = 0; m < Tiles::row_blocks; ++m) {
      repair_sums<Tiles::layout_1, Tiles::layout_2>(
          sums[m], p, [&](int i) { return self.row(part, m, i / 2 % 2); },
          [&](int i) { return first_column + i / 16 * 32 + i % 2 * 16 + i / 4 % 4; });
    }
  }
  with_epilogue_kind(p.to, [&](auto kind) {
    store_tile_as<decltype(kind)::value, Tiles>(p, sums, part, self, exchange);
  });
}

// ---- the kernel ----

template <class Tiles>
__device__ __forceinline__ void run_consumer(const wgmma_problem& p,
                                             const split_memory<Tiles>& memory, float* exchange) {
  const split_consumer<Tiles> self;
  const bool leads_warp = threadIdx.x % 32 == 0;
  const tensor_core_turns turns(self.group);
  device::ring_position<Tiles::stages> at;
  tile_walk walk(p.schedule);
  tile_part part;
  while (walk.next(part)) {
    float sums[Tiles::row_blocks][Tiles::sums] = {};
    long_sums<Tiles::sums> totals;
    int until_absorbed = p.schedule.chunks_per_sum;
    first_values<Tiles> x;
    first_fragments<Tiles> a;
    memory.full(at.stage).wait(at.parity);
    load_values(x, memory, at.stage, self);
#pragma unroll 1
    for (int chunk = part.begin; chunk < part.end; ++chunk) {
      float fresh[Tiles::sums];
      split_values<Tiles>(a, x);
      const float factor = Tiles::traits::truncation_factor(a[0][0], 1);
      turns.wait();
      multiply_chunk<Tiles>(sums, fresh, a, memory.second(at.stage));
      turns.pass();
      const device::mbarrier done = memory.empty(at.stage);
      at.advance();
      if (chunk + 1 < part.end) {  // read ahead while the products run
        memory.full(at.stage).wait(at.parity);
        load_values(x, memory, at.stage, self);
      }
      device::wait_for_wgmma<0>();
      if (leads_warp) done.arrive();
      if constexpr (Tiles::x3) {
#pragma unroll
        for (int i = 0; i < Tiles::sums; ++i) sums[0][i] = fmaf(fresh[i], factor, sums[0][i]);
        if (--until_absorbed == 0) {
          totals.absorb(sums[0]);
          until_absorbed = p.schedule.chunks_per_sum;
        }
      }
    }
    if constexpr (Tiles::x3) totals.finish(sums[0]);
    if (finish_sums_of_part<Tiles::consumers>(p, part, sums, self.group)) {
      store_tile<Tiles>(p, sums, part, self, exchange);
    }
  }
}

template <class Tiles>
__global__ void __launch_bounds__(Tiles::launch_bound, 1)
    wgmma_split_kernel(const __grid_constant__ wgmma_problem p,
                       const __grid_constant__ CUtensorMap first_map,
                       const __grid_constant__ CUtensorMap second_map) {
  if constexpr (device::has_wgmma) {
    extern __shared__ __align__(1024) unsigned char wgmma_shared[];
    __shared__ __align__(8) std::uint64_t barriers[split_memory<Tiles>::barriers];
    __shared__ __align__(16) float exchange[column_sum_exchange_floats];
    const split_memory<Tiles> memory(device::shared_address(wgmma_shared),
                                     device::shared_address(barriers));
    if (threadIdx.x == 0) memory.init_barriers();
    __syncthreads();
    if (threadIdx.x / 128 == Tiles::consumers) {
      device::release_registers<Tiles::splitter_registers>();
      run_splitter<Tiles>(p, first_map, second_map, memory);
    } else {
      device::acquire_registers<Tiles::consumer_registers>();
      run_consumer<Tiles>(p, memory, exchange);
    }
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
