/// @file
/// How persistent blocks share the tiles of a product among them, deterministically.
///
/// Whole rounds of tiles go round: block b takes tiles b, b + blocks, ... What is left, less than
/// two rounds, would keep only some of the blocks busy. So with `splits` it is cut by chunks of the
/// sum instead of by tiles: laid end to end, the chunks of all those tiles are a line, and every
/// block gets an equal stretch of it (Osama et al., "Stream-K", 2023):
///
///     tiles     |------ 0 ------|------ 1 ------|------ 2 ------|
///     blocks    |--- 0 ---|--- 1 ---|--- 2 ---|--- 3 ---|-- 4 --|
///
/// A stretch that ends inside a tile leaves partial sums behind. The block that has the tile's last
/// chunk adds them to its own, in a fixed order: from the nearest block back to the tile's
/// beginning. A block walks its stretch from the end: it publishes what it leaves to others first
/// and waits last, and it waits for blocks of lower number only, which the hardware starts earlier.
/// So somebody can always go on, however few blocks run at a time.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/epilogue.cuh>
#include <llmc/detail/matmul/exact_sums.cuh>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/mbarrier.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// A fixed plan of all tiles, made on the host.
struct tile_schedule {
  std::int32_t row_tiles;
  std::int32_t column_tiles;
  std::int32_t chunks;          ///< of terms of the sum, in a tile
  std::int32_t group;           ///< rows of tiles that share their column tiles in the L2 cache
  std::int32_t whole_tiles;     ///< that go round; the rest is cut by chunks
  std::int32_t chunks_per_sum;  ///< see chunks_per_sum
  std::int32_t blocks;
};

/// The terms of a chunk of TF32 products.
inline constexpr std::int32_t tile_chunk = 32;

inline tile_schedule make_tile_schedule(std::int64_t rows, std::int64_t columns,
                                        std::int64_t chunks, int tile_rows, int tile_columns,
                                        int group, int multiprocessors, bool splits) {
  tile_schedule s{};
  s.row_tiles = static_cast<std::int32_t>(ceil_div(rows, tile_rows));
  s.column_tiles = static_cast<std::int32_t>(ceil_div(columns, tile_columns));
  s.chunks = static_cast<std::int32_t>(chunks);
  s.group = group;
  const std::int64_t tiles = std::int64_t{s.row_tiles} * s.column_tiles;
  const std::int64_t most_blocks = splits ? tiles * s.chunks : tiles;
  const std::int64_t blocks = most_blocks < multiprocessors ? most_blocks : multiprocessors;
  const std::int64_t rounds = tiles / blocks;
  const bool even = tiles % blocks == 0;
  const std::int64_t whole = !splits || even ? tiles : rounds > 1 ? (rounds - 1) * blocks : 0;
  s.blocks = static_cast<std::int32_t>(blocks);
  s.whole_tiles = static_cast<std::int32_t>(whole);
  s.chunks_per_sum = chunks_per_sum(s.chunks);
  return s;
}

/// Consecutive chunks [begin, end) of the tile at (row, column), counted in tiles.
struct tile_part {
  std::int32_t row;
  std::int32_t column;
  std::int32_t begin;
  std::int32_t end;
  std::int32_t first_on_line;  ///< where the tile's chunk 0 is on the line of cut tiles
};

/// The parts of one block, in order.
class tile_walk {
 public:
  __device__ __forceinline__ explicit tile_walk(const tile_schedule& schedule)
      : schedule_(schedule),
        tile_(static_cast<std::int32_t>(blockIdx.x)),
        begin_(start_of(schedule, static_cast<std::int32_t>(blockIdx.x))),
        end_(start_of(schedule, static_cast<std::int32_t>(blockIdx.x) + 1)) {}

  /// Sets the next part; false if there is none.
  __device__ __forceinline__ bool next(tile_part& part) {
    if (tile_ < schedule_.whole_tiles) {
      place(part, tile_);
      part.begin = 0;
      part.end = schedule_.chunks;
      tile_ += schedule_.blocks;
      return true;
    }
    if (begin_ >= end_) return false;
    const std::int32_t tile = (end_ - 1) / schedule_.chunks;
    place(part, schedule_.whole_tiles + tile);
    part.first_on_line = tile * schedule_.chunks;
    part.begin = (max)(begin_ - part.first_on_line, 0);
    part.end = end_ - part.first_on_line;
    end_ = part.first_on_line + part.begin;
    return true;
  }

  /// Where the stretch of a block begins on the line.
  static __device__ __forceinline__ std::int32_t start_of(const tile_schedule& s,
                                                          std::int32_t block) {
    const std::int64_t cut = std::int64_t{s.row_tiles} * s.column_tiles - s.whole_tiles;
    return static_cast<std::int32_t>(cut * s.chunks * block / s.blocks);
  }

 private:
  /// Tiles are counted down the rows of a group, then along the columns, then group by group.
  __device__ __forceinline__ void place(tile_part& part, std::int32_t tile) const {
    const std::int32_t group_tiles = schedule_.group * schedule_.column_tiles;
    const std::int32_t group = tile / group_tiles;
    const std::int32_t first_row = group * schedule_.group;
    const std::int32_t rows = (min)(schedule_.row_tiles - first_row, schedule_.group);
    const std::int32_t in_group = tile - group * group_tiles;
    part.row = first_row + in_group % rows;
    part.column = in_group / rows;
  }

  const tile_schedule& schedule_;
  std::int32_t tile_;
  std::int32_t begin_;
  std::int32_t end_;
};

/// Partial sums between the blocks of a schedule that cuts tiles. A group of `Threads` threads of
/// each block, number `group` of `Groups`, exchanges `Count` sums a thread with the same group of
/// other blocks. A flag is set when a block's sums are there, and the reader clears it.
template <int Groups, int Threads, int Count>
class partial_sums {
 public:
  static_assert(Count % 4 == 0, "sums are exchanged 16 bytes at a time");

  /// `barrier`: a named barrier that this group alone uses.
  __device__ __forceinline__ partial_sums(float* memory, std::int32_t* flags, int group,
                                          int barrier)
      : memory_(reinterpret_cast<float4*>(memory) + group * (Threads * Count / 4) +
                threadIdx.x % Threads),
        flags_(flags + group),
        barrier_(barrier) {}

  /// Leaves this block's sums for the block that finishes the tile.
  __device__ __forceinline__ void publish(const float (&sums)[Count]) const {
    const auto block = static_cast<std::int32_t>(blockIdx.x);
    float4* const to = memory_ + block * block_stride;
#pragma unroll
    for (int i = 0; i < Count / 4; ++i) {
      __stcg(to + i * Threads,
             make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]));
    }
    __threadfence();
    device::synchronise_some(barrier_, Threads);
    if (threadIdx.x % Threads == 0) {
      asm volatile("st.release.gpu.s32 [%0], 1;" ::"l"(flags_ + block * Groups) : "memory");
    }
  }

  /// Adds what other blocks left of the tile whose chunk 0 is at `first_on_line`.
  __device__ __forceinline__ void gather(float (&sums)[Count], const tile_schedule& schedule,
                                         std::int32_t first_on_line) const {
    std::int32_t end = tile_walk::start_of(schedule, static_cast<std::int32_t>(blockIdx.x));
    for (auto block = static_cast<std::int32_t>(blockIdx.x) - 1; end > first_on_line; --block) {
      const std::int32_t begin = tile_walk::start_of(schedule, block);
      if (begin < end) add(sums, block);
      end = begin;
    }
  }

 private:
  static constexpr std::int64_t block_stride = Groups * Threads * Count / 4;

  __device__ __forceinline__ void add(float (&sums)[Count], std::int32_t block) const {
    if (threadIdx.x % Threads == 0) {
      std::int32_t* const flag = flags_ + block * Groups;
      std::int32_t there = 0;
      while (there == 0) {
        asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(there) : "l"(flag) : "memory");
      }
      *flag = 0;
    }
    device::synchronise_some(barrier_, Threads);
    const float4* const from = memory_ + block * block_stride;
#pragma unroll
    for (int i = 0; i < Count / 4; ++i) {
      const float4 x = __ldcg(from + i * Threads);
      sums[4 * i] += x.x;
      sums[4 * i + 1] += x.y;
      sums[4 * i + 2] += x.z;
      sums[4 * i + 3] += x.w;
    }
  }

  float4* memory_;
  std::int32_t* flags_;
  int barrier_;
};

/// A product as the kernels take it; out is `rows` x `columns`.
struct wgmma_problem {
  tile_schedule schedule;
  std::int32_t rows;
  std::int32_t columns;
  std::int32_t inner;
  product_output to;
  products::operand first;
  products::operand second;
  float* partials;      ///< of the blocks among which tiles are cut
  std::int32_t* flags;  ///< 0 before and after
};

/// Completes the sums of a part: adds what other blocks left of its tile, or leaves them to the
/// block that finishes it. Returns whether they are complete.
template <int Groups, int Blocks, int Count, class Problem>
__device__ __forceinline__ bool finish_sums_of_part(const Problem& p, const tile_part& part,
                                                    float (&sums)[Blocks][Count], int group) {
  if (part.begin == 0 && part.end == p.schedule.chunks) return true;
  const partial_sums<Groups, 128, Blocks * Count> partials(p.partials, p.flags, group, 1 + group);
  auto& all = reinterpret_cast<float(&)[Blocks * Count]>(sums);
  if (part.end < p.schedule.chunks) {
    partials.publish(all);
    return false;
  }
  partials.gather(all, p.schedule, part.first_on_line);
  return true;
}

}  // namespace detail
LLMC_NAMESPACE_END
