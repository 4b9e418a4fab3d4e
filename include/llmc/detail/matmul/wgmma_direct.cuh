/// @file
/// TF32 products on Hopper's tensor cores whose second operand needs no rewriting: it has k
/// innermost, and bulk copies bring it to shared memory already rounded to TF32, as wgmma takes it.
/// Tiles of 128 x 256, two consumer warpgroups of 64 x 256 and one thread that asks for copies.
///
///  - forward, out = inp1 inp2 with both operands k innermost: inp1 goes to wgmma from shared
///  memory
///    in the same way.
///  - swapped, for out = inp1 inp2 with inp2's columns innermost (the gradient of a layer's input):
///    computes the transpose, out' = inp2' inp1'. Now inp1 is the operand that is fine as it lies,
///    and inp2 goes to wgmma through registers, where it may have any order. So the weights need no
///    transposed copy. Rows of a tile are columns of out, and the other way round.
///
/// The running sums stay in the tensor core, which truncates when it adds: next to the rounding of
/// the operands that does not show.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/matmul/epilogue.cuh>
#include <llmc/detail/matmul/tile_walk.cuh>
#include <llmc/detail/matmul/wgmma_epilogue.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/copy_async.cuh>
#include <llmc/device/mbarrier.cuh>
#include <llmc/device/mma.cuh>
#include <llmc/device/tensor_copy.cuh>
#include <llmc/device/wgmma.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

template <bool Swapped>
struct direct_tiles {
  static constexpr bool swapped = Swapped;
  static constexpr bool x3 = false;
  static constexpr bool has_column_sums = false;  ///< of store_tile
  static constexpr int row_blocks = 1;
  static constexpr int rows = 128;
  static constexpr int columns = 256;
  static constexpr int sums = 128;
  static constexpr int consumers = 2;
  static constexpr int threads = (consumers + 1) * 128;
  static constexpr int launch_bound = device::has_wgmma ? threads : 32;
  static constexpr std::uint32_t first_bytes = rows * 128;
  static constexpr std::uint32_t stage_bytes = first_bytes + columns * 128;
  static constexpr int stages = 4;
  static constexpr std::uint32_t shared_bytes = stages * stage_bytes + 1024;
  static constexpr int consumer_registers = 232;
  static constexpr int loader_registers = 40;
};

/// Where things are in shared memory.
template <class Tiles>
class direct_memory {
 public:
  static constexpr int barriers = 2 * Tiles::stages;

  __device__ __forceinline__ direct_memory(std::uint32_t memory, std::uint32_t barrier_memory)
      : memory_((memory + 1023) & ~1023u), barriers_(barrier_memory) {}

  __device__ __forceinline__ std::uint32_t first(int stage) const {
    return memory_ + stage * Tiles::stage_bytes;
  }
  __device__ __forceinline__ std::uint32_t second(int stage) const {
    return first(stage) + Tiles::first_bytes;
  }
  __device__ __forceinline__ device::mbarrier full(int stage) const {
    return {barriers_ + stage * device::mbarrier::bytes};
  }
  __device__ __forceinline__ device::mbarrier empty(int stage) const {
    return full(Tiles::stages + stage);
  }

  /// By one thread.
  __device__ __forceinline__ void init_barriers() const {
    for (int stage = 0; stage < Tiles::stages; ++stage) {
      full(stage).init(1);
      empty(stage).init(4 * Tiles::consumers);
    }
    device::mbarriers_are_ready();
  }

 private:
  std::uint32_t memory_;
  std::uint32_t barriers_;
};

// ---- the loader: one thread ----

template <class Tiles>
__device__ __forceinline__ void run_loader(const wgmma_problem& p, const CUtensorMap& first_map,
                                           const CUtensorMap& second_map,
                                           const direct_memory<Tiles>& memory) {
  device::ring_position<Tiles::stages> at;
  tile_walk walk(p.schedule);
  tile_part part;
  while (walk.next(part)) {
    for (int chunk = part.begin; chunk < part.end; ++chunk) {
      memory.empty(at.stage).wait(at.parity ^ 1);
      const device::mbarrier full = memory.full(at.stage);
      const std::uint32_t first = memory.first(at.stage);
      const std::uint32_t second = memory.second(at.stage);
      const int k = chunk * tile_chunk;
      full.arrive_and_expect(Tiles::stage_bytes);
      if constexpr (Tiles::swapped) {
        for (int box = 0; box < 4; ++box) {
          const int row = part.row * Tiles::rows + 32 * box;
          device::copy_box(first + box * 32 * 128, first_map, row, k, full);
        }
        device::copy_box(second, second_map, k, part.column * Tiles::columns, full);
      } else {
        device::copy_box(first, first_map, k, part.row * Tiles::rows, full);
        // Rank 5, so that the columns arrive in the order that store_tile describes.
        device::copy_box_5d(second, second_map, k, part.column * (Tiles::columns / 32), full);
      }
      at.advance();
    }
  }
}

// ---- the consumers ----

/// What a thread of a consumer is, and which rows of a tile it has.
template <class Tiles>
struct direct_consumer {
  int group = static_cast<int>(threadIdx.x) / 128;
  int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  int g = static_cast<int>(threadIdx.x) % 32 / 4;
  int t = static_cast<int>(threadIdx.x) % 4;

  /// Swapped: which 4 of the 32 rows of its box a thread's two are among. Of 16 lanes that are
  /// served at once, 8 read chunks below 4 and 8 above, so that no two meet in a bank.
  __device__ __forceinline__ int swapped_chunk() const {
    return 4 * (g / 2 % 2) + 2 * (warp % 2) + g / 4;
  }
  __device__ __forceinline__ int swapped_box() const { return group * 2 + warp / 2; }

  __device__ __forceinline__ int row(const tile_part& part, int, int h) const {
    const int in_tile = Tiles::swapped ? 32 * swapped_box() + 4 * swapped_chunk() + 2 * (g % 2) + h
                                       : 64 * group + 16 * warp + g + 8 * h;
    return part.row * Tiles::rows + in_tile;
  }
};

/// Both operands from shared memory.
template <class Tiles>
__device__ __forceinline__ void sum_forward(float (&sums)[Tiles::sums],
                                            const direct_memory<Tiles>& memory,
                                            device::ring_position<Tiles::stages>& at,
                                            const tile_part& part,
                                            const direct_consumer<Tiles>& self) {
  const bool leads_warp = threadIdx.x % 32 == 0;
  device::mbarrier before{0};
#pragma unroll 1
  for (int chunk = part.begin; chunk < part.end; ++chunk) {
    memory.full(at.stage).wait(at.parity);
    const std::uint64_t a = device::wgmma_tile(memory.first(at.stage) + self.group * 64 * 128);
    const std::uint64_t b = device::wgmma_tile(memory.second(at.stage));
    device::begin_wgmma();
#pragma unroll
    for (int s = 0; s < 4; ++s) device::wgmma_tf32<true>(sums, a + 2 * s, b + 2 * s);
    device::commit_wgmma();
    device::wait_for_wgmma<1>();  // this chunk's products run while the next is waited for
    if (chunk > part.begin && leads_warp) before.arrive();
    before = memory.empty(at.stage);
    at.advance();
  }
  device::wait_for_wgmma<0>();
  if (leads_warp) before.arrive();
}

/// A thread's share of a chunk of the operand that goes through registers.
template <class Tiles>
__device__ __forceinline__ void load_swapped(float (&x)[4][4], std::uint32_t first,
                                             const direct_consumer<Tiles>& self) {
  const std::uint32_t box = first + static_cast<std::uint32_t>(self.swapped_box() * 32 * 128);
#pragma unroll
  for (int s = 0; s < 4; ++s) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int k = 8 * s + 4 * half + self.t;
      const float2 v = device::load_shared_2(box + device::swizzled_128(k, self.swapped_chunk()) +
                                             static_cast<std::uint32_t>(8 * (self.g % 2)));
      x[s][2 * half] = v.x;
      x[s][2 * half + 1] = v.y;
    }
  }
}

/// The first operand through registers; it is read ahead while products run.
template <class Tiles>
__device__ __forceinline__ void sum_swapped(float (&sums)[Tiles::sums],
                                            const direct_memory<Tiles>& memory,
                                            device::ring_position<Tiles::stages>& at,
                                            const tile_part& part,
                                            const direct_consumer<Tiles>& self) {
  const bool leads_warp = threadIdx.x % 32 == 0;
  float x[4][4];
  memory.full(at.stage).wait(at.parity);
  load_swapped(x, memory.first(at.stage), self);
#pragma unroll 1
  for (int chunk = part.begin; chunk < part.end; ++chunk) {
    device::tf32_fragment<4> a[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) device::set_tf32<precision::tf32>(a[s], i, x[s][i]);
    }
    const std::uint64_t b = device::wgmma_tile(memory.second(at.stage));
    const device::mbarrier done = memory.empty(at.stage);
    device::begin_wgmma();
#pragma unroll
    for (int s = 0; s < 4; ++s) device::wgmma_tf32<true>(sums, a[s].high, b + 2 * s);
    device::commit_wgmma();
    at.advance();
    if (chunk + 1 < part.end) {
      memory.full(at.stage).wait(at.parity);
      load_swapped(x, memory.first(at.stage), self);
    }
    device::wait_for_wgmma<0>();
    if (leads_warp) done.arrive();
  }
}

/// Stores a thread's sums over the two 128 rows of a tile for its two columns, once they are added
/// over the four threads that have these columns.
__device__ __forceinline__ void store_swapped_column_sums(const wgmma_problem& p,
                                                          device::pack<2> (&sums)[2], int first_row,
                                                          int column, int t) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& sum = sums[half][i];
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    }
    const int row = first_row + 128 * half;
    if (t == 0 && column < p.columns && row < p.rows) {
      device::store<2>(p.to.column_sums + std::int64_t{row / 128} * p.columns + column, sums[half]);
    }
  }
}

/// Stores the sums of a swapped tile: sum 4j + 2h + e is for row 8j + 2t + e of out (counted in the
/// tile) and the thread's column h, two consecutive ones. Eight j at a time, see store_tile.
template <epilogue_kind Kind, class Tiles>
__device__ __forceinline__ void store_swapped_tile(const wgmma_problem& p,
                                                   const float (&sums)[Tiles::sums],
                                                   const tile_part& part,
                                                   const direct_consumer<Tiles>& self) {
  const int column = self.row(part, 0, 0);
  const int first_row = part.column * Tiles::columns;
  const bool inside = column < p.columns;
  constexpr int batch = 8;
  device::pack<2> column_sums[2] = {};  // of 128 rows each
#pragma unroll
  for (int j0 = 0; j0 < Tiles::columns / 8; j0 += batch) {
    const auto for_each = [&](auto body) {
#pragma unroll
      for (int j = j0; j < j0 + batch; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int row = first_row + 8 * j + 2 * self.t + e;
          if (inside && row < p.rows) body(j, e, std::int64_t{row} * p.to.stride + column);
        }
      }
    };
    device::pack<2> other[batch][2] = {};
    for_each(
        [&](int j, int e, std::int64_t at) { other[j - j0][e] = load_other<Kind, 2>(p.to, at); });
    for_each([&](int j, int e, std::int64_t at) {
      const device::pack<2> x{{sums[4 * j + e], sums[4 * j + 2 + e]}};
      const auto y = finish_sums<Kind, 2>(p.to, at, x, other[j - j0][e]);
      column_sums[j / 16][0] += y[0];
      column_sums[j / 16][1] += y[1];
    });
  }
  if constexpr (Kind == epilogue_kind::gelu_gradient) {
    if (p.to.column_sums != nullptr) {
      store_swapped_column_sums(p, column_sums, first_row, column, self.t);
    }
  }
}

template <class Tiles>
__device__ __forceinline__ void run_direct_consumer(const wgmma_problem& p,
                                                    const direct_memory<Tiles>& memory) {
  const direct_consumer<Tiles> self;
  device::ring_position<Tiles::stages> at;
  tile_walk walk(p.schedule);
  tile_part part;
  while (walk.next(part)) {
    float sums[1][Tiles::sums] = {};
    if constexpr (Tiles::swapped) {
      sum_swapped(sums[0], memory, at, part, self);
    } else {
      sum_forward(sums[0], memory, at, part, self);
    }
    if (!finish_sums_of_part<Tiles::consumers>(p, part, sums, self.group)) continue;
    if constexpr (Tiles::swapped) {
      with_epilogue_kind(p.to, [&](auto kind) {
        store_swapped_tile<decltype(kind)::value>(p, sums[0], part, self);
      });
    } else {
      store_tile<Tiles>(p, sums, part, self, nullptr);
    }
  }
}

template <class Tiles>
__global__ void __launch_bounds__(Tiles::launch_bound, 1)
    wgmma_direct_kernel(const __grid_constant__ wgmma_problem p,
                        const __grid_constant__ CUtensorMap first_map,
                        const __grid_constant__ CUtensorMap second_map) {
  if constexpr (device::has_wgmma) {
    extern __shared__ __align__(1024) unsigned char wgmma_shared[];
    __shared__ __align__(8) std::uint64_t barriers[direct_memory<Tiles>::barriers];
    const direct_memory<Tiles> memory(device::shared_address(wgmma_shared),
                                      device::shared_address(barriers));
    if (threadIdx.x == 0) memory.init_barriers();
    __syncthreads();
    if (threadIdx.x / 128 == Tiles::consumers) {
      device::release_registers<Tiles::loader_registers>();
      if (threadIdx.x % 128 == 0) run_loader<Tiles>(p, first_map, second_map, memory);
    } else {
      device::acquire_registers<Tiles::consumer_registers>();
      run_direct_consumer<Tiles>(p, memory);
    }
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
