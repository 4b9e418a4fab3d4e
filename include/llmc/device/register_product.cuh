/// @file
/// A 128 x 128 tile of a matrix product in FP32 by a block of 256 threads, for kernels that do more
/// with the sums than store them. It is the last rung of the ladder before tensor cores, see
/// docs/layers/matmul.md.
///
///  - Operands come from global memory 16 bytes at a time where their alignment allows it. Those of
///    the next step are loaded into registers while this step is computed, and then go to the other
///    of two buffers in shared memory. So there is one barrier a step, and loads have a step's
///    time.
///  - A thread owns 8 x 8 sums, as four squares of 4 x 4: its 8 rows and its 8 columns come from
///    shared memory by two loads of 16 bytes each.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/operand.cuh>
#include <llmc/device/sum_in_parts.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

/// Eight k of an operand in shared memory, one line for each. The four floats at the end put what a
/// warp stores at once into different banks, for either layout of the operand.
struct register_product_tile {
  static constexpr int side = 128;
  static constexpr int depth = 8;
  static constexpr int threads = 256;
  struct lines {
    float floats[depth][side + 4];
    __device__ __forceinline__ float* operator[](int k) { return floats[k]; }
    __device__ __forceinline__ const float* operator[](int k) const { return floats[k]; }
  };
};

/// Brings one operand to shared memory, four floats a thread, tile after tile along k.
///
///     inner_first: two threads an outer          outer_first: a warp a k
///     k  0 1 2 3  4 5 6 7                        outers  0 1 2 3  4 5 6 7 ... 127
///        thread 0 thread 1     outer 0           k = 0   thread 0 thread 1 ... thread 31
///        thread 2 thread 3     outer 1           k = 1   thread 32 ...
template <layout Order>
class quad_loader {
  using tile = register_product_tile;
  static constexpr bool inner_first = Order == layout::inner_first;

 public:
  /// The tile begins at outer `first` of `outers`, a multiple of 4.
  __device__ __forceinline__ quad_loader(const operand& m, std::int64_t first, std::int64_t outers)
      : from_(element<Order>(m, first + own_outer(), own_k())),
        step_(inner_first ? tile::depth : tile::depth * m.stride),
        outers_left_(outers - first - own_outer()),
        wide_(m.stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0) {}

  /// Begins to load from the next tile. The matrix has `depth` more k; what lies outside it counts
  /// as 0.
  __device__ __forceinline__ void fetch(std::int64_t depth) {
    const std::int64_t k_left = depth - own_k();
    const std::int64_t across = inner_first ? outers_left_ : k_left;
    const std::int64_t along = across > 0 ? (inner_first ? k_left : outers_left_) : 0;
    if (wide_ && along >= 4) {
      quad_ = load<4>(from_);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) quad_[i] = i < along ? from_[i] : 0.0f;
    }
    from_ += step_;
  }

  __device__ __forceinline__ void put(tile::lines& to) const {
    if constexpr (inner_first) {
#pragma unroll
      for (int i = 0; i < 4; ++i) to[own_k() + i][own_outer()] = quad_[i];
    } else {
      store<4>(&to[own_k()][own_outer()], quad_);
    }
  }

 private:
  static __device__ __forceinline__ int own_outer() {
    const int thread = static_cast<int>(threadIdx.x);
    return inner_first ? thread / 2 : thread % 32 * 4;
  }
  static __device__ __forceinline__ int own_k() {
    const int thread = static_cast<int>(threadIdx.x);
    return inner_first ? thread % 2 * 4 : thread / 32;
  }

  const float* from_;  ///< this thread's first float of the next tile
  std::int64_t step_;
  std::int64_t outers_left_;  ///< from this thread's first one on
  bool wide_;
  pack<4> quad_;
};

/// The tile's sums, in the registers of the block. `ByWarps` says how the threads share it out:
///
///     by rows of threads            by warps of 8 x 4 threads
///     warp 0: 16 x 128              +------+------+------+------+
///     warp 1: 16 x 128              | 64   |      |      |      |
///     ...                           | x 32 |      |      |      |
///                                   +------+------+------+------+
///     reads 16 + 128 floats a k     reads 64 + 32
///
///     using product = register_product<layout::inner_first, layout::inner_first>;
///     __shared__ product::storage memory;
///     product tile(memory);
///     tile.multiply({inp, C}, {weight, C}, {rows, OC, C}, first_row, first_column);
///     tile.for_each_quad([&](int row, int column, pack<4> sums) { ... });
template <layout First, layout Second, bool ByWarps = true>
class register_product {
  using tile = register_product_tile;

 public:
  static constexpr int side = tile::side;
  static constexpr int threads = tile::threads;

  struct alignas(16) storage {
    tile::lines first[2];
    tile::lines second[2];
  };

  /// The threads of the block share `memory`, which may be used again and again.
  __device__ __forceinline__ explicit register_product(storage& memory) : memory_(memory) {}

  /// Makes the sums of the rows from `row` on and the columns from `column` on, both multiples
  /// of 4. What the matrices do not have counts as 0. Every thread must call it.
  __device__ __forceinline__ void multiply(const operand& first, const operand& second,
                                           product_extents size, std::int64_t row,
                                           std::int64_t column) {
    quad_loader<First> load_first(first, row, size.rows);
    quad_loader<Second> load_second(second, column, size.columns);
    summed_parts<count> parts;
#pragma unroll
    for (int i = 0; i < count; ++i) sums_[i] = 0.0f;

    load_first.fetch(size.inner);
    load_second.fetch(size.inner);
    load_first.put(memory_.first[0]);
    load_second.put(memory_.second[0]);
    __syncthreads();
    int now = 0;
    for (std::int64_t left = size.inner; left > 0; parts.absorb(sums_)) {
      for (int i = 0; i < terms_per_part / tile::depth && left > 0; ++i, now ^= 1) {
        left -= tile::depth;
        if (left > 0) {
          load_first.fetch(left);
          load_second.fetch(left);
        }
        add_products(memory_.first[now], memory_.second[now]);
        if (left > 0) {
          load_first.put(memory_.first[now ^ 1]);
          load_second.put(memory_.second[now ^ 1]);
        }
        __syncthreads();
      }
    }
    parts.finish(sums_);
  }

  /// Calls `body(row, column, pack<4> sums)` for each of this thread's runs of 4 sums; row and
  /// column are counted from the tile's first.
  template <class Body>
  __device__ __forceinline__ void for_each_quad(Body body) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        const float* x = sums_ + 8 * i + j;
        body(own_row() + i / 4 * row_gap + i % 4, own_column() + j / 4 * column_gap,
             pack<4>{{x[0], x[1], x[2], x[3]}});
      }
    }
  }

 private:
  static constexpr int count = 64;  ///< of a thread's sums
  static constexpr int row_gap = ByWarps ? 32 : 64;
  static constexpr int column_gap = ByWarps ? 16 : 64;

  static __device__ __forceinline__ int own_row() {
    const int thread = static_cast<int>(threadIdx.x);
    return ByWarps ? thread / 128 * 64 + thread % 32 / 4 * 4 : thread / 16 * 4;
  }
  static __device__ __forceinline__ int own_column() {
    const int thread = static_cast<int>(threadIdx.x);
    return ByWarps ? thread / 32 % 4 * 32 + thread % 4 * 4 : thread % 16 * 4;
  }

  __device__ __forceinline__ void add_products(const tile::lines& first,
                                               const tile::lines& second) {
#pragma unroll
    for (int k = 0; k < tile::depth; ++k) {
      const pack<4> a[2] = {load<4>(first[k] + own_row()), load<4>(first[k] + own_row() + row_gap)};
      const pack<4> b[2] = {load<4>(second[k] + own_column()),
                            load<4>(second[k] + own_column() + column_gap)};
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          sums_[8 * i + j] = fmaf(a[i / 4][i % 4], b[j / 4][j % 4], sums_[8 * i + j]);
        }
      }
    }
  }

  storage& memory_;
  float sums_[count];
};

}  // namespace device
LLMC_NAMESPACE_END
