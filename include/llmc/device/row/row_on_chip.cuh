/// @file
/// A long row that stays on the chip while a block passes over it again and again: its first part
/// in registers, the rest in shared memory, where each thread finds only what it put there itself.
/// Together the two hold more than either. A row of GPT-2's logits takes 201 KB, which leaves room
/// for a second row on a multiprocessor of an H100: one is read while the other is computed.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/copy_async.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/group.cuh>
#include <llmc/device/row/row.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

/// The packs of a row that the threads of a block keep in registers: 88 floats a thread where the
/// block is small enough for 128 registers a thread, else 32.
constexpr int packs_in_registers(int block_size) {
  return block_size * (block_size <= 512 ? 22 : 8);
}

/// The blocks that a multiprocessor holds when each thread has 128 registers.
constexpr int blocks_with_row_on_chip(int block_size) {
  return block_size <= 512 ? 512 / block_size : 1;
}

/// Begins to copy this thread's packs of a row, from column `first` on: the packs that a
/// row_on_chip shows this thread.
template <int BlockSize>
__device__ __forceinline__ void begin_to_copy_row(float* shared, const float* row, int count,
                                                  int first = 0) {
  for (int c = first + static_cast<int>(threadIdx.x) * 4; c < count; c += BlockSize * 4) {
    begin_copy_4(shared + (c - first), row + c);
  }
}

/// `WholePacks` says that the row's length is a multiple of 4; else what lies past its end in the
/// last pack reads as -infinity, which no maximum and no sum of exponentials notices.
template <int BlockSize, bool WholePacks>
class row_on_chip {
 public:
  static constexpr bool keeps = true;
  static constexpr int end_width = 4;

  struct place {
    static constexpr int width = 4;
    int column;
    int count;
    __device__ bool holds(int i) const { return WholePacks || column + i < count; }
  };

  /// `shared` has room for the packs that the registers do not take. `row` begins at a 16-byte
  /// boundary and is readable up to the next multiple of 4; its first `count` numbers take part.
  __device__ __forceinline__ row_on_chip(float* shared, const float* row, int count)
      : shared_(shared), count_(count) {
    begin_to_copy_row<BlockSize>(shared_, row, count, first_in_shared);
#pragma unroll
    for (int k = 0; k < registers; ++k) {
      if (column(k) < count) kept_[k] = load<4>(row + column(k));
    }
  }

  __device__ __forceinline__ std::int64_t end() const {
    return (std::int64_t{count_} + 3) / 4 * 4;
  }

  template <class Body>
  __device__ __forceinline__ void visit(Body body) {
    for_each<false>(body);
  }
  template <class Body>
  __device__ __forceinline__ void update(Body body) {
    for_each<true>(body);
  }
  template <class Out, class Body>
  __device__ __forceinline__ void write(Out out, Body body) {
    visit([&](auto& x, auto where) {
      body(x, where);
      put<4>(out, where.column, x);
    });
  }

 private:
  static constexpr int registers = packs_in_registers(BlockSize) / BlockSize;
  static constexpr int first_in_shared = registers * BlockSize * 4;

  __device__ __forceinline__ static int column(int k) {
    return (static_cast<int>(threadIdx.x) + k * BlockSize) * 4;
  }

  /// Whole packs need no mask, but without its branch the compiler begins more loads than there are
  /// registers for: softmax then takes 6 to 9% longer on an H200.
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
      body(kept_[k], place{column(k), count_});
    }
    finish_copies();  // not earlier: the compiler would let the loads above wait for the copies
    for (int c = column(registers); c < count_; c += BlockSize * 4) {
      auto x = load<4>(shared_ + (c - first_in_shared));
      mask(x, c);
      body(x, place{c, count_});
      if constexpr (Keep) store(shared_ + (c - first_in_shared), x);
    }
  }

  pack<4> kept_[registers];
  float* shared_;
  int count_;
};

}  // namespace device
LLMC_NAMESPACE_END
