/// @file
/// The three things in which variants of the softmax layers differ: who shares a row of scores,
/// where the row lives, and how its statistics are found. Each kernel of these layers is written
/// once over a type that says all three.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/group.cuh>
#include <llmc/device/row/row.cuh>
#include <llmc/device/row/row_on_chip.cuh>
#include <llmc/device/row/softmax.cuh>
#include <llmc/error.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// A row in memory, or in the cache. With any_block_size one kernel serves all block sizes.
template <class Group, int Width, device::softmax_sum Sum, int BlockSize = device::any_block_size,
          int Batch = 4>
struct scores_in_memory {
  using group = Group;
  using out = float*;
  static constexpr int width = Width;
  static constexpr device::softmax_sum sum = Sum;
  static constexpr bool on_chip = false;
  static constexpr int most_threads = BlockSize == device::any_block_size ? 1024 : BlockSize;
  static constexpr int blocks = 0;  ///< that a multiprocessor must hold; 0: any number

  /// The shared memory is for rows on the chip.
  __device__ __forceinline__ static auto row(float*, const float* from, std::int64_t count) {
    return device::row_in_memory<Group, Width, const float*, Batch>(from, count);
  }
};

/// A row on the chip, whose results are written past the caches.
template <int BlockSize, bool WholePacks>
struct scores_on_chip {
  using group = device::whole_block<BlockSize>;
  using out = device::streamed;
  static constexpr int width = 4;
  static constexpr device::softmax_sum sum = device::softmax_sum::in_place;
  static constexpr bool on_chip = true;
  static constexpr int most_threads = BlockSize;
  static constexpr int blocks = device::blocks_with_row_on_chip(BlockSize);

  __device__ __forceinline__ static auto row(float* shared, const float* from, std::int64_t count) {
    return device::row_on_chip<BlockSize, WholePacks>(shared, from, static_cast<int>(count));
  }
};

// The rungs of the ladders, a float at a time.
using thread_in_passes =
    scores_in_memory<device::lone_thread<>, 1, device::softmax_sum::after_maximum>;
using thread_online = scores_in_memory<device::lone_thread<>, 1, device::softmax_sum::online>;
using warp_in_passes =
    scores_in_memory<device::whole_warp<>, 1, device::softmax_sum::after_maximum>;
using warp_online = scores_in_memory<device::whole_warp<>, 1, device::softmax_sum::online>;
using block_in_passes =
    scores_in_memory<device::whole_block<>, 1, device::softmax_sum::after_maximum>;

// ---- the host's part ----

/// The shared memory for the part of a row that the registers do not take, and for `others` whole
/// rows.
inline std::size_t row_on_chip_shared_bytes(std::int64_t count, int block_size, int others = 0) {
  const std::int64_t packs = ceil_div(count, 4);
  const std::int64_t in_registers = device::packs_in_registers(block_size);
  const std::int64_t rest = packs > in_registers ? packs - in_registers : 0;
  return static_cast<std::size_t>(rest + others * packs) * sizeof(device::pack<4>);
}

inline bool fits_row_on_chip(const char* function, std::int64_t count, int block_size, int others) {
  constexpr std::size_t reductions = 1024;  // what the kernels use besides, at most
  const int limit = device_attribute(function, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return row_on_chip_shared_bytes(count, block_size, others) + reductions <=
         static_cast<std::size_t>(limit);
}

/// Whether a layer's variant keeps rows of that many scores on the chip; `wide` says whether they
/// can be read 16 bytes at a time, and `others` how many rows lie whole in shared memory besides.
/// `automatic` keeps rows on the chip that are so long that two blocks keep the memory busy.
template <auto Variant>
bool keeps_row_on_chip(const char* function, bool wide, std::int64_t count, int block_size,
                       int others = 0) {
  using variant = decltype(Variant);
  constexpr std::int64_t fewest_scores = 8192;
  if constexpr (Variant == variant::row_on_chip) {
    if (wide && fits_row_on_chip(function, count, block_size, others)) return true;
    throw unsupported(std::string(function) + ": the variant " + to_string(Variant) +
                      " takes rows that begin at 16-byte boundaries and fit the registers and the "
                      "shared memory of this device, got " +
                      std::to_string(count) + " columns");
  } else {
    return Variant == variant::automatic && wide && count >= fewest_scores &&
           fits_row_on_chip(function, count, block_size, others);
  }
}

/// Launches a kernel in which each group of a block takes a row at a time.
template <class Scores, class... Parameters, class... Arguments>
void launch_over_rows(const char* function, std::int64_t rows, int block_size,
                      std::size_t shared_bytes, cudaStream_t stream, void (*kernel)(Parameters...),
                      Arguments... arguments) {
  const std::int64_t blocks = ceil_div(rows, Scores::group::per_block(block_size));
  launch({function, blocks, block_size, shared_bytes, stream}, kernel, arguments...);
}

/// Calls `body(scores, shared_bytes)` for `block_per_row`, `row_on_chip` or the choice between
/// them; see keeps_row_on_chip. `others` rows lie whole in shared memory besides.
template <auto Variant, int BlockSize, bool WholePacks, class Body>
void with_block_scores(const char* function, bool wide, std::int64_t count, int others, Body body) {
  if constexpr (Variant != decltype(Variant)::block_per_row) {
    if (keeps_row_on_chip<Variant>(function, wide, count, BlockSize, others)) {
      body(scores_on_chip<BlockSize, WholePacks>{},
           row_on_chip_shared_bytes(count, BlockSize, others));
      return;
    }
  }
  with_access_width(wide, [&](auto width) {
    body(scores_in_memory<device::whole_block<BlockSize>, width(), device::softmax_sum::online,
                          BlockSize>{},
         0);
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
