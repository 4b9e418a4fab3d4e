/// @file
/// Products on Hopper's tensor cores for which operands must be rewritten on their way in: split in
/// two (tf32x3), rounded, or turned so that k is innermost. wgmma takes TF32 from shared memory in
/// no other order. No operand is ever rewritten in global memory.
///
/// A block has three warpgroups:
///
///  - two consumers, of 64 * row_blocks rows of the tile each. They read inp1 from shared memory as
///    it came, in either order, split it in registers and give it to wgmma from there.
///  - a splitter. Each of its warps owns 32 of the tile's 128 columns, has its own ring of boxes of
///    inp2 as they came, and writes them split and with k innermost to the stage.
///
///     inp1  --bulk copy-->  stage: boxes as they came  --registers, split-->  wgmma
///     inp2  --bulk copy-->  ring   --splitter-->  stage: high tile, low tile  -->  wgmma
///
/// A sum takes its terms in any order, so the 32 k of a chunk are dealt to the instruction's k in
/// the order that makes all these loads and stores wide and free of bank conflicts; likewise rows
/// and columns. k_order, row_order and column_order say how.
///
/// tf32x3 sums a chunk of 32 terms in fresh registers, the small products first, and adds the
/// result to the running sums by ordinary FP32 additions: the tensor core truncates when it adds,
/// and in one long sum that alone would cost more digits than FP32 has to lose. What truncation
/// takes from a chunk on average is given back on the way (Tiles::traits::truncation_factor), and
/// long sums are sums of sums (long_sums).
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/matmul/product.hpp>
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

/// The sizes of a kernel for operands of these layouts.
template <precision Arithmetic, products::layout First, products::layout Second, int RowBlocks>
struct split_tiles {
  static constexpr precision arithmetic = Arithmetic;
  static constexpr products::layout layout_1 = First;
  static constexpr products::layout layout_2 = Second;
  static constexpr bool inner_first_1 = First == products::layout::inner_first;
  static constexpr bool inner_first_2 = Second == products::layout::inner_first;
  using traits = device::precision_traits<Arithmetic>;
  static constexpr bool x3 = traits::is_split;
  static constexpr int row_blocks = RowBlocks;
  static_assert(inner_first_1 || !inner_first_2, "no layer multiplies these two layouts");
  static_assert(!x3 || RowBlocks == 1, "two row blocks need more registers than there are");

  static constexpr int rows = 128 * RowBlocks;
  static constexpr int columns = 128;
  static constexpr int consumers = 2;
  static constexpr int threads = (consumers + 1) * 128;
  static constexpr int launch_bound = device::has_wgmma ? threads : 32;
  static constexpr int sums = 64;                          ///< of a thread in a row block
  static constexpr bool has_column_sums = RowBlocks == 1;  ///< else registers run out

  static constexpr std::uint32_t box_bytes = 32 * 128;
  static constexpr std::uint32_t first_bytes = rows / 32 * box_bytes;
  static constexpr std::uint32_t second_bytes = columns / 32 * box_bytes;
  static constexpr std::uint32_t stage_bytes = first_bytes + second_bytes * (x3 ? 2 : 1);
  static constexpr int stages = x3 || RowBlocks == 2 ? 3 : 4;
  static constexpr int ring = 4;
  static constexpr std::uint32_t shared_bytes = stages * stage_bytes + ring * second_bytes + 1024;

  // Together not more than 3 * 168, what the launch bounds leave each thread.
  static constexpr int consumer_registers = RowBlocks == 2 ? 216 : 208;
  static constexpr int splitter_registers = RowBlocks == 2 ? 72 : 88;
};

/// Where things are in shared memory.
template <class Tiles>
class split_memory {
 public:
  static constexpr int barriers = 2 * Tiles::stages + 4 * Tiles::ring;

  __device__ __forceinline__ split_memory(std::uint32_t memory, std::uint32_t barrier_memory)
      : memory_((memory + 1023) & ~1023u), barriers_(barrier_memory) {}

  /// Box r of inp1: rows 32r.. of the tile.
  __device__ __forceinline__ std::uint32_t first(int stage, int box) const {
    return memory_ + stage * Tiles::stage_bytes + box * Tiles::box_bytes;
  }
  /// The tile of inp2 for wgmma; for tf32x3 the high parts, with the low parts `second_bytes` on.
  __device__ __forceinline__ std::uint32_t second(int stage) const {
    return memory_ + stage * Tiles::stage_bytes + Tiles::first_bytes;
  }
  /// A box of inp2 as it came, of one warp's ring.
  __device__ __forceinline__ std::uint32_t raw(int place, int warp) const {
    return memory_ + Tiles::stages * Tiles::stage_bytes + place * Tiles::second_bytes +
           warp * Tiles::box_bytes;
  }

  /// Barriers whose phase ends when a stage is filled, when it may be filled again, and when a raw
  /// box is there.
  __device__ __forceinline__ device::mbarrier full(int stage) const { return barrier(stage); }
  __device__ __forceinline__ device::mbarrier empty(int stage) const {
    return barrier(Tiles::stages + stage);
  }
  __device__ __forceinline__ device::mbarrier raw_full(int place, int warp) const {
    return barrier(2 * Tiles::stages + warp * Tiles::ring + place);
  }

  /// By one thread.
  __device__ __forceinline__ void init_barriers() const {
    for (int stage = 0; stage < Tiles::stages; ++stage) {
      full(stage).init(4);                      // the splitter's warps, and inp1's bytes
      empty(stage).init(4 * Tiles::consumers);  // the consumers' warps
    }
    for (int i = 2 * Tiles::stages; i < barriers; ++i) barrier(i).init(1);
    device::mbarriers_are_ready();
  }

 private:
  __device__ __forceinline__ device::mbarrier barrier(int i) const {
    return {barriers_ + i * device::mbarrier::bytes};
  }

  std::uint32_t memory_;
  std::uint32_t barriers_;
};

/// Which k of a chunk the instruction's step s takes as its k = t + 4 * half. It is chosen for how
/// inp1 is read: with k innermost a lane loads 4 consecutive k, else 2 rows of k = 2t and 2t + 1.
template <class Tiles>
__device__ __forceinline__ constexpr int k_order(int s, int half, int t) {
  return Tiles::inner_first_1 ? 16 * (s / 2) + 4 * t + 2 * (s % 2) + half : 8 * s + 2 * t + half;
}

// ---- the splitter ----

__device__ __forceinline__ float element(const float4& x, int i) {
  return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

/// The order of a box's columns in the wgmma tile: row 8j + u of the tile is column
/// column_order(u) + j of the box. So a consumer's thread, which has rows 2t and 2t + 1 of each 8,
/// ends up with 4 consecutive columns, and 4 threads with 16.
__device__ __forceinline__ constexpr int column_order(int u) {
  return 4 * (u / 2) + 16 * (u % 2);
}

/// Rewrites a warp's box of inp2, 32 columns x 32 k, as rows of the wgmma tile. The box has k
/// innermost: lane (rs, c) reads chunk c of 8 columns.
template <class Tiles>
__device__ __forceinline__ void split_inner_first(std::uint32_t tile, std::uint32_t raw, int lane) {
  const int c = lane % 8;
  const int rs = lane / 8;
  float4 x[2][4];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = column_order(4 * half + rs) + j;
      x[half][j] = device::load_shared_4(raw + device::swizzled_128(column, c));
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        // k = 4c + q is t = c % 4 of chunk 4 * (c / 4) + q, see k_order.
        const std::uint32_t to = tile +
                                 device::swizzled_128(8 * j + 4 * half + rs, 4 * (c / 4) + q) +
                                 static_cast<std::uint32_t>(4 * (c % 4));
        const auto parts = Tiles::traits::split({element(x[half][j], q)});
        device::store_shared_1(to, parts.high[0]);
        if constexpr (Tiles::x3) device::store_shared_1(to + Tiles::second_bytes, parts.low[0]);
      }
    }
  }
}

/// The same where the box has columns innermost: lane (rs, c) reads columns 4c.. of 8 k, and turns
/// 4 x 4 numbers at a time.
template <class Tiles>
__device__ __forceinline__ void split_columns_first(std::uint32_t tile, std::uint32_t raw,
                                                    int lane) {
  const int c = lane % 8;
  const int u = 2 * (c % 4) + c / 4;  // column_order(u) == 4c
  float4 x[2][4];
#pragma unroll
  for (int turn = 0; turn < 2; ++turn) {
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      const int chunk = lane / 8 + 4 * turn;
      const int k = k_order<Tiles>(chunk / 2, chunk % 2, t);
      x[turn][t] = device::load_shared_4(raw + device::swizzled_128(k, c));
    }
  }
#pragma unroll
  for (int turn = 0; turn < 2; ++turn) {
    const int chunk = lane / 8 + 4 * turn;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const auto parts = Tiles::traits::split({element(x[turn][0], j), element(x[turn][1], j),
                                               element(x[turn][2], j), element(x[turn][3], j)});
      const std::uint32_t to = tile + device::swizzled_128(8 * j + u, chunk);
      device::store_shared_4(to, parts.high);
      if constexpr (Tiles::x3) device::store_shared_4(to + Tiles::second_bytes, parts.low);
    }
  }
}

/// Asks for a warp's boxes of inp2, as far ahead as its ring is long, across tiles. One lane calls
/// load_next().
template <class Tiles>
class raw_feed {
 public:
  __device__ __forceinline__ raw_feed(const wgmma_problem& p, const CUtensorMap& map,
                                      const split_memory<Tiles>& memory, int warp)
      : map_(map), memory_(memory), warp_(warp), walk_(p.schedule) {
    begin_next_part();
  }

  __device__ __forceinline__ void load_next() {
    if (!more_) return;
    const device::mbarrier there = memory_.raw_full(at_.stage, warp_);
    const std::uint32_t to = memory_.raw(at_.stage, warp_);
    const int column = part_.column * Tiles::columns + warp_ * 32;
    there.arrive_and_expect(Tiles::box_bytes);
    if constexpr (Tiles::inner_first_2) {
      device::copy_box(to, map_, chunk_ * tile_chunk, column, there);
    } else {
      device::copy_box(to, map_, column, chunk_ * tile_chunk, there);
    }
    at_.advance();
    if (++chunk_ == part_.end) begin_next_part();
  }

 private:
  __device__ __forceinline__ void begin_next_part() {
    more_ = walk_.next(part_);
    chunk_ = part_.begin;
  }

  const CUtensorMap& map_;
  const split_memory<Tiles>& memory_;
  int warp_;
  tile_walk walk_;
  tile_part part_{};
  std::int32_t chunk_ = 0;
  bool more_ = false;
  device::ring_position<Tiles::ring> at_;
};

/// Asks for a warp's share of inp1's boxes of a chunk. One lane calls it.
template <class Tiles>
__device__ __forceinline__ void load_first(const CUtensorMap& map,
                                           const split_memory<Tiles>& memory, int stage, int warp,
                                           const tile_part& part, int chunk) {
  const device::mbarrier full = memory.full(stage);
  full.expect(Tiles::row_blocks * Tiles::box_bytes);
#pragma unroll
  for (int m = 0; m < Tiles::row_blocks; ++m) {
    const int box = warp + 4 * m;
    const int row = part.row * Tiles::rows + 32 * box;
    if constexpr (Tiles::inner_first_1) {
      device::copy_box(memory.first(stage, box), map, chunk * tile_chunk, row, full);
    } else {
      device::copy_box(memory.first(stage, box), map, row, chunk * tile_chunk, full);
    }
  }
}

template <class Tiles>
__device__ __forceinline__ void run_splitter(const wgmma_problem& p, const CUtensorMap& first_map,
                                             const CUtensorMap& second_map,
                                             const split_memory<Tiles>& memory) {
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  raw_feed<Tiles> feed(p, second_map, memory, warp);
  if (lane == 0) {
    for (int i = 0; i < Tiles::ring; ++i) feed.load_next();
  }
  device::ring_position<Tiles::stages> at;
  device::ring_position<Tiles::ring> raw_at;
  tile_walk walk(p.schedule);
  tile_part part;
  while (walk.next(part)) {
#pragma unroll 1
    for (int chunk = part.begin; chunk < part.end; ++chunk) {
      memory.empty(at.stage).wait(at.parity ^ 1);
      if (lane == 0) load_first(first_map, memory, at.stage, warp, part, chunk);
      memory.raw_full(raw_at.stage, warp).wait(raw_at.parity);
      const std::uint32_t tile = memory.second(at.stage) + warp * Tiles::box_bytes;
      const std::uint32_t raw = memory.raw(raw_at.stage, warp);
      if constexpr (Tiles::inner_first_2) {
        split_inner_first<Tiles>(tile, raw, lane);
      } else {
        split_columns_first<Tiles>(tile, raw, lane);
      }
      device::publish_to_async_proxy();
      __syncwarp();  // the warp has written its columns and is done with its raw box
      if (lane == 0) {
        memory.full(at.stage).arrive();
        feed.load_next();
      }
      at.advance();
      raw_at.advance();
    }
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
