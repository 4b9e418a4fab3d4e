/// @file
/// A long row of scores that stays on the chip while a block passes over it again and again: its
/// first part in registers, the rest in shared memory, where each thread finds only what it put
/// there itself. The two hold more together than either: at 201 KB a row of GPT-2's logits leaves
/// room for a second row on a multiprocessor of an H100, which is read while the first is computed.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/copy_async.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/device/row/row_softmax.cuh>
#include <llmc/error.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// The packs of a row that the threads of a block keep in registers: 88 floats a thread, of 128
/// registers, where the block leaves it as many.
constexpr int packs_in_registers(int block_size) {
  return block_size * (block_size <= 512 ? 22 : 8);
}

/// The blocks that a multiprocessor holds when each thread has 128 registers.
constexpr int blocks_with_row_on_chip(int block_size) {
  return block_size <= 512 ? 512 / block_size : 1;
}

/// Begins to copy this thread's packs of a row, from column `first` on: those that row_on_chip,
/// which waits for all copies that the thread began, shows the thread too.
template <int BlockSize>
__device__ __forceinline__ void begin_to_copy_row(float* shared, const float* row, int count,
                                                  int first = 0) {
  for (int c = first + static_cast<int>(threadIdx.x) * 4; c < count; c += BlockSize * 4) {
    begin_copy_4(shared + (c - first), row + c);
  }
}

template <int BlockSize>
class row_on_chip {
 public:
  /// `shared` has room for the packs that the registers do not take; rows begin at 16-byte
  /// boundaries and are readable up to a multiple of 4, and of that `count` scores take part.
  __device__ __forceinline__ row_on_chip(float* shared, const float* row, int count)
      : shared_(shared), count_(count) {
    begin_to_copy_row<BlockSize>(shared_, row, count, first_in_shared);
#pragma unroll
    for (int k = 0; k < registers; ++k) {
      if (column(k) < count) kept_[k] = device::load<4>(row + column(k));
    }
    finish_copies();
  }

  /// Calls `body(pack, c)` for each of this thread's packs, by reference; c is its first column. It
  /// may change the pack: `update` keeps that, `visit` may lose it. Scores that do not take part
  /// are -infinity.
  template <class Body>
  __device__ __forceinline__ void visit(Body body) {
    for_each<false>(body);
  }
  template <class Body>
  __device__ __forceinline__ void update(Body body) {
    for_each<true>(body);
  }

 private:
  static constexpr int registers = packs_in_registers(BlockSize) / BlockSize;
  static constexpr int first_in_shared = registers * BlockSize * 4;

  __device__ __forceinline__ static int column(int k) {
    return (static_cast<int>(threadIdx.x) + k * BlockSize) * 4;
  }

  __device__ __forceinline__ void mask(pack<4>& x, int c) const {
    if (c + 4 <= count_) return;
#pragma unroll
    for (int i = 1; i < 4; ++i) {
      if (c + i >= count_) x[i] = minus_infinity();
    }
  }

  template <bool Keep, class Body>
  __device__ __forceinline__ void for_each(Body body) {
#pragma unroll
    for (int k = 0; k < registers; ++k) {
      if (column(k) >= count_) continue;
      mask(kept_[k], column(k));
      body(kept_[k], column(k));
    }
    for (int c = column(registers); c < count_; c += BlockSize * 4) {
      auto x = device::load<4>(shared_ + (c - first_in_shared));
      mask(x, c);
      body(x, c);
      if constexpr (Keep) store(shared_ + (c - first_in_shared), x);
    }
  }

  pack<4> kept_[registers];
  float* shared_;
  int count_;
};

/// Replaces every score by exp(score - maximum). All threads of the block must call it, and all get
/// the statistics; a row that has no softmax becomes NaN.
template <int BlockSize>
__device__ __forceinline__ softmax_statistics softmax_exponentials(
    row_on_chip<BlockSize>& row, typename block_reducer<float, BlockSize>::storage& storage) {
  block_reducer<float, BlockSize> reducer(storage);
  float share = minus_infinity();
  row.visit([&](pack<4>& x, int) {
#pragma unroll
    for (int i = 0; i < 4; ++i) share = fmaxf(share, x[i]);
  });
  const float max = reducer.max(share);
  float sum = 0.0f;
  row.update([&](pack<4>& x, int) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[i] = expf(x[i] - max);
      sum += x[i];
    }
  });
  return {max, reducer.sum(sum)};
}

/// crossentropy_gradient_row of the exponentials that softmax_exponentials left. Writes over the
/// row's memory are free: it was read before the barriers there.
template <int BlockSize>
__device__ __forceinline__ void crossentropy_gradient_row(float* dlogits,
                                                          row_on_chip<BlockSize>& exponentials,
                                                          softmax_statistics statistics,
                                                          std::int32_t target, float dloss,
                                                          classifier_shape shape) {
  const float scale = 1.0f / statistics.sum;
  const int vocabulary = static_cast<int>(shape.vocabulary);
  exponentials.visit([&](pack<4>& x, int c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float p = x[i] * scale;
      x[i] = c + i < vocabulary ? (c + i == target ? p - 1.0f : p) * dloss : 0.0f;
    }
    store_streaming(dlogits + c, x);
  });
  const std::int64_t written = (shape.vocabulary + 3) / 4 * 4;
  clear_row<4, BlockSize>(dlogits + written, shape.padded_vocabulary - written);
}

}  // namespace device

namespace detail {

/// The shared memory for what the registers do not take of a row, and for `others` whole rows.
inline std::size_t row_on_chip_shared_bytes(std::int64_t count, int block_size, int others = 0) {
  const std::int64_t packs = ceil_div(count, 4);
  const std::int64_t in_registers = device::packs_in_registers(block_size);
  const std::int64_t rest = packs > in_registers ? packs - in_registers : 0;
  return static_cast<std::size_t>(rest + others * packs) * sizeof(device::pack<4>);
}

inline bool fits_row_on_chip(const char* function, std::int64_t count, int block_size, int others) {
  constexpr std::size_t reductions = 1024;  // what the kernels have of it besides, at most
  const int limit = device_attribute(function, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return row_on_chip_shared_bytes(count, block_size, others) + reductions <=
         static_cast<std::size_t>(limit);
}

/// Whether a layer's variant keeps rows of that many scores on the chip; `wide` says whether they
/// can be read 16 bytes at a time, and `others` how many rows lie whole in shared memory besides.
/// `automatic` does so where the rows of two blocks are enough to keep the memory busy.
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

}  // namespace detail
LLMC_NAMESPACE_END
