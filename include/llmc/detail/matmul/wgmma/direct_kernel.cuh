/// @file
/// TF32 products on Hopper's tensor cores whose second operand needs no rewriting: it has k
/// innermost, and bulk copies bring it to shared memory already rounded to TF32, as wgmma takes it.
/// Tiles of 128 x 256, two consumer warpgroups of 64 x 256 and one thread that asks for copies.
///
///  - forward, out = inp1 inp2 with both operands k innermost: inp1 goes to wgmma from shared
///    memory in the same way.
///  - swapped, for out = inp1 inp2 with inp2's columns innermost (the gradient of a layer's input):
///    computes the transpose, out' = inp2' inp1'. Now inp1 is the operand that needs no rewriting,
///    and inp2 goes to wgmma through registers, where it may have any order. So the weights need no
///    transposed copy. Rows of a tile are columns of out, and the other way round.
///
/// The running sums stay in the tensor core, which truncates when it adds: next to the rounding of
/// the operands that does not show.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/matmul/epilogue.cuh>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/matmul/wgmma/ring_memory.cuh>
#include <llmc/detail/matmul/wgmma/tile_walk.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/copy_async.cuh>
#include <llmc/device/memory/mbarrier.cuh>
#include <llmc/device/memory/tensor_copy.cuh>
#include <llmc/device/tensor_core/precision.cuh>
#include <llmc/device/tensor_core/wgmma.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The sizes of a kernel. inp1 has k innermost, inp2 has the layout `Second`.
template <products::layout Second>
struct direct_tiles {
  static constexpr bool swapped = Second == products::layout::outer_first;
  static constexpr int rows = 128;
  static constexpr int columns = 256;
  static constexpr int sums = 128;
  static constexpr int consumers = 2;
  static constexpr int threads = (consumers + 1) * 128;
  static constexpr int launch_bound = device::has_wgmma ? threads : 32;
  static constexpr std::uint32_t first_bytes = rows * 128;
  static constexpr std::uint32_t stage_bytes = first_bytes + columns * 128;
  static constexpr int stages = 4;
  static constexpr int part_side = 64;  ///< see turning_stage
  static constexpr std::uint32_t part_bytes = part_side * part_side * 4;
  static constexpr std::uint32_t shared_bytes =
      stages * stage_bytes + consumers * part_bytes + 1024;
  static constexpr int consumer_registers = 232;
  static constexpr int loader_registers = 40;
};

/// Where things are in shared memory: the ring, and behind it the turning_stage of each consumer
/// group.
template <class Tiles>
struct direct_memory : ring_memory<Tiles> {
  using ring_memory<Tiles>::ring_memory;

  __device__ __forceinline__ std::uint32_t turning(int group) const {
    return this->first(Tiles::stages) + group * Tiles::part_bytes;
  }
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
        device::copy_box(second, second_map, k, part.column * Tiles::columns, full);
      }
      at.advance();
    }
  }
}

// ---- the consumers ----

/// What a thread of a consumer is. Its group has 64 rows of a tile.
template <class Tiles>
struct direct_consumer {
  int group = static_cast<int>(threadIdx.x) / 128;
  int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  int g = static_cast<int>(threadIdx.x) % 32 / 4;
  int t = static_cast<int>(threadIdx.x) % 4;

  /// Swapped: the chunk, 4 of the 32 rows of its box, in which a thread's two rows lie. Of 16 lanes
  /// that are served at once, 8 read chunks below 4 and 8 above, so that no two meet in a bank.
  __device__ __forceinline__ int swapped_chunk() const {
    return 4 * (g / 2 % 2) + 2 * (warp % 2) + g / 4;
  }
  __device__ __forceinline__ int swapped_box() const { return group * 2 + warp / 2; }
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
    device::operand_fragment<precision::tf32, 4> a[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) a[s] = device::precision_traits<precision::tf32>::split(x[s]);
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

/// Where a consumer group turns its sums, so that they go out as whole rows. It holds a part, 64 x
/// 64, of the group's share of a tile at a time. Chunks of 4 are swizzled, so that neither the
/// pairs that stage_part writes nor the rows that are read meet in a bank.
template <class Tiles>
class turning_stage {
 public:
  static constexpr int side = Tiles::part_side;
  static constexpr int chunks = side / 4;  ///< of a row

  __device__ __forceinline__ explicit turning_stage(std::uint32_t memory) : memory_(memory) {}

  __device__ __forceinline__ std::uint32_t chunk(int row, int chunk) const {
    const int swizzle = Tiles::swapped ? row / 2 % 4 : row % 4 * 2;
    return memory_ + static_cast<std::uint32_t>(row * side * 4 + ((chunk ^ swizzle) << 4));
  }

 private:
  std::uint32_t memory_;
};

/// Writes a thread's sums of part `part` to the stage. Sum 4j + 2h + e is for column 8j + 2t + e
/// and the thread's row h. Swapped, it is for row 8j + 2t + e and the thread's column h; its two
/// columns are consecutive.
template <class Tiles>
__device__ __forceinline__ void stage_part(const turning_stage<Tiles>& stage,
                                           const float (&sums)[Tiles::sums], int part,
                                           const direct_consumer<Tiles>& self) {
  constexpr int steps = turning_stage<Tiles>::side / 8;
#pragma unroll
  for (int j = 0; j < Tiles::columns / 8; ++j) {
    if (j / steps != part) continue;  // the same for all threads; registers have no index
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if constexpr (Tiles::swapped) {
        const int chunk = 8 * (self.warp / 2) + self.swapped_chunk();
        const std::uint32_t to = stage.chunk(8 * (j % steps) + 2 * self.t + i, chunk);
        device::store_shared_2(to + 8 * (self.g % 2), sums[4 * j + i], sums[4 * j + 2 + i]);
      } else {
        const std::uint32_t to =
            stage.chunk(16 * self.warp + self.g + 8 * i, 2 * (j % steps) + self.t / 2);
        device::store_shared_2(to + 8 * (self.t % 2), sums[4 * j + 2 * i], sums[4 * j + 2 * i + 1]);
      }
    }
  }
}

/// Adds up and stores the sums of a group's columns over the 128 rows that begin with `first_row`.
/// Each thread has its share for 4 columns in `own`.
template <class Tiles, class Wait>
__device__ __forceinline__ void store_group_column_sums(const wgmma_problem& p, device::pack<4> own,
                                                        const turning_stage<Tiles>& stage,
                                                        int first_row, int column, Wait wait) {
  constexpr int chunks = turning_stage<Tiles>::chunks;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const std::uint32_t words[4] = {__float_as_uint(own[0]), __float_as_uint(own[1]),
                                  __float_as_uint(own[2]), __float_as_uint(own[3])};
  wait();  // all are done with the stage, where the sums meet
  device::store_shared_4(stage.chunk(thread / chunks, thread % chunks), words);
  wait();
  if (thread >= chunks || column >= p.columns || first_row >= p.rows) return;
  for (int i = 1; i < 128 / chunks; ++i) {
    const float4 x = device::load_shared_4(stage.chunk(i, thread));
    own[0] += x.x;
    own[1] += x.y;
    own[2] += x.z;
    own[3] += x.w;
  }
  device::store<4>(p.to.column_sums + first_row / products::column_sum_rows * p.columns + column,
                   own);
}

/// Stores the sums of a tile, part by part. This is a loop on purpose: unrolled, it is so much code
/// that the instruction cache does not keep up.
template <epilogue_kind Kind, class Tiles>
__device__ __forceinline__ void store_by_parts(const wgmma_problem& p,
                                               const float (&sums)[Tiles::sums],
                                               const tile_part& part,
                                               const direct_consumer<Tiles>& self,
                                               const turning_stage<Tiles>& stage) {
  using staged = turning_stage<Tiles>;
  constexpr int side = staged::side;
  constexpr int rows_at_once = 128 / staged::chunks;
  constexpr int turns = side / rows_at_once;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int chunk = thread % staged::chunks;
  const int own_row = thread / staged::chunks;
  const auto wait_for_group = [&] { device::synchronise_some(1 + self.group, 128); };

  device::pack<4> column_sums = {};
#pragma unroll 1
  for (int k = 0; k < Tiles::columns / side; ++k) {
    const int along_rows = part.row * Tiles::rows + side * self.group;
    const int along_columns = part.column * Tiles::columns + side * k;
    const int first_row = Tiles::swapped ? along_columns : along_rows;
    const int column = (Tiles::swapped ? along_rows : along_columns) + 4 * chunk;
    const auto for_each_turn = [&](auto body) {
#pragma unroll
      for (int i = 0; i < turns; ++i) {
        const int row = first_row + own_row + i * rows_at_once;
        if (row < p.rows && column < p.columns) body(i, std::int64_t{row} * p.to.stride + column);
      }
    };
    device::pack<4> bias = {};
    device::pack<4> other[turns] = {};
    if (p.to.bias != nullptr && column < p.columns) bias = device::load<4>(p.to.bias + column);
    for_each_turn([&](int i, std::int64_t at) { other[i] = load_other<Kind, 4>(p.to, at); });
    wait_for_group();  // all are done with the part before
    stage_part(stage, sums, k, self);
    wait_for_group();
    for_each_turn([&](int i, std::int64_t at) {
      const float4 x = device::load_shared_4(stage.chunk(own_row + i * rows_at_once, chunk));
      const device::pack<4> sum{{x.x + bias[0], x.y + bias[1], x.z + bias[2], x.w + bias[3]}};
      const device::pack<4> y = finish_sums<Kind, 4>(p.to, at, sum, other[i]);
#pragma unroll
      for (int c = 0; c < 4; ++c) column_sums[c] += y[c];
    });
    if constexpr (Tiles::swapped && Kind == epilogue_kind::gelu_gradient) {
      constexpr int parts_a_sum = products::column_sum_rows / side;
      if (p.to.column_sums == nullptr || (k + 1) % parts_a_sum != 0) continue;
      store_group_column_sums(p, column_sums, stage, first_row - (parts_a_sum - 1) * side, column,
                              wait_for_group);
      column_sums = {};
    }
  }
}

template <class Tiles>
__device__ __forceinline__ void run_direct_consumer(const wgmma_problem& p,
                                                    const direct_memory<Tiles>& memory) {
  const direct_consumer<Tiles> self;
  const turning_stage<Tiles> stage(memory.turning(self.group));
  device::ring_position<Tiles::stages> at;
  tile_walk walk(p.schedule);
  tile_part part;
  while (walk.next(part)) {
    float sums[Tiles::sums] = {};
    if constexpr (Tiles::swapped) {
      sum_swapped(sums, memory, at, part, self);
    } else {
      sum_forward(sums, memory, at, part, self);
    }
    with_epilogue_kind(p.to, [&](auto kind) {
      store_by_parts<decltype(kind)::value>(p, sums, part, self, stage);
    });
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
