/// @file
/// Products of matrices in halves on Hopper's tensor cores: tile sizes, shared memory, and the
/// thread that asks for copies. half_kernel.cuh has the rest.
///
/// 16-bit wgmma takes both operands from shared memory in either order. So bulk copies bring blocks
/// of the planes straight to where they are multiplied, and the three layouts differ in descriptors
/// alone. A stage of the ring is a chunk of 64 k of one plane of both operands.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/matmul/wgmma/ring_memory.cuh>
#include <llmc/detail/matmul/wgmma/tile_walk.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/detail/split/planes.cuh>
#include <llmc/device/memory/copy_async.cuh>
#include <llmc/device/memory/mbarrier.cuh>
#include <llmc/device/memory/tensor_copy.cuh>
#include <llmc/device/tensor_core/wgmma.cuh>
#include <llmc/split_matrix.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The sizes of a kernel.
template <products::layout First, products::layout Second, half_products How>
struct half_tiles {
  static constexpr products::layout layout_1 = First;
  static constexpr products::layout layout_2 = Second;
  static constexpr bool inner_first_1 = First == products::layout::inner_first;
  static constexpr bool inner_first_2 = Second == products::layout::inner_first;
  static constexpr bool x3 = How == half_products::three;
  static constexpr int planes = x3 ? 2 : 1;
  static constexpr int rows = 128;
  static constexpr int columns = 192;
  static constexpr int chunk = 64;
  static constexpr int sums = 96;
  static constexpr int column_blocks = columns / static_cast<int>(split_layout::side);
  static constexpr int consumers = 2;
  static constexpr int threads = (consumers + 1) * 128;
  static constexpr int launch_bound = device::has_wgmma ? threads : 32;
  static constexpr std::uint32_t box_bytes = 64 * 128;
  static constexpr std::uint32_t first_bytes = rows * 128;
  static constexpr std::uint32_t stage_bytes = first_bytes + columns * 128;
  static constexpr int stages = 5;
  static constexpr std::uint32_t shared_bytes = stages * stage_bytes + 1024;
  static constexpr int consumer_registers = 232;
  static constexpr int loader_registers = 40;
};

/// A product as the kernel takes it; out is `rows` x `columns`.
struct half_problem {
  tile_schedule schedule;
  std::int32_t rows;
  std::int32_t columns;
  bool wide;  ///< rows of out are stored 16 bytes at a time
  product_output to;
  split_planes first;
  split_planes second;
  float* partials;      ///< of the blocks among which tiles are cut
  std::int32_t* flags;  ///< 0 before and after
};

/// Begins to copy a chunk of 64 k of one plane: `Outers` rows or columns of the tile from `outer`
/// on. The map shows both planes as one matrix, the low one below the high one.
template <bool InnerFirst, int Outers>
__device__ __forceinline__ void copy_chunk(std::uint32_t to, const CUtensorMap& map,
                                           int first_plane_row, int outer, int k,
                                           device::mbarrier done) {
  if constexpr (InnerFirst) {
    device::copy_box(to, map, k, first_plane_row + outer, done);
  } else {
#pragma unroll
    for (int box = 0; box < Outers / 64; ++box) {
      device::copy_box(to + box * 64 * 128, map, outer + 64 * box, first_plane_row + k, done);
    }
  }
}

/// One thread asks for all copies: the low plane of a chunk, which is done with first, then the
/// high one.
template <class Tiles>
__device__ __forceinline__ void run_half_loader(const half_problem& p, const CUtensorMap& first_map,
                                                const CUtensorMap& second_map,
                                                const ring_memory<Tiles>& memory) {
  constexpr int side = static_cast<int>(split_layout::side);
  device::ring_position<Tiles::stages> at;
  tile_walk walk(p.schedule);
  tile_part part;
  while (walk.next(part)) {
    for (int chunk = part.begin; chunk < part.end; ++chunk) {
      const int k = chunk * Tiles::chunk;
#pragma unroll 1
      for (int plane = Tiles::planes - 1; plane >= 0; --plane) {
        memory.empty(at.stage).wait(at.parity ^ 1);
        const device::mbarrier full = memory.full(at.stage);
        full.arrive_and_expect(Tiles::stage_bytes);
        copy_chunk<Tiles::inner_first_1, Tiles::rows>(memory.first(at.stage), first_map,
                                                      plane * p.first.row_blocks * side,
                                                      part.row * Tiles::rows, k, full);
        copy_chunk<Tiles::inner_first_2, Tiles::columns>(memory.second(at.stage), second_map,
                                                         plane * p.second.row_blocks * side,
                                                         part.column * Tiles::columns, k, full);
        at.advance();
      }
    }
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
