/// @file
/// How the consumers of the kernel for halves store the sums of a tile.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/matmul/epilogue.cuh>
#include <llmc/detail/matmul/wgmma/half_tiles.cuh>
#include <llmc/detail/matmul/wgmma/tile_walk.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/mbarrier.cuh>
#include <llmc/device/memory/pack.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// What a thread of a consumer is. Its group has 64 rows of a tile. Sum 4j + 2h + e is at row g +
/// 8h of its warp's 16 and at column 8j + 2t + e, as tensor cores have it; these are places, see
/// split_layout. So sums 8i + {0, 1, 4, 5} + 2h are four consecutive columns of a row.
template <class Tiles>
struct half_consumer {
  int group = static_cast<int>(threadIdx.x) / 128;
  int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  int g = static_cast<int>(threadIdx.x) % 32 / 4;
  int t = static_cast<int>(threadIdx.x) % 4;

  __device__ __forceinline__ int warp_row(const tile_part& part) const {
    return part.row * Tiles::rows + group * 64 + warp * 16;
  }
  __device__ __forceinline__ int row(const tile_part& part, int h) const {
    return warp_row(part) + 4 * (g / 2) + g % 2 + 2 * h;
  }
  /// The first of the four columns number i, 0 to columns / 16 - 1.
  __device__ __forceinline__ int column(const tile_part& part, int i) const {
    return part.column * Tiles::columns + 16 * i + 4 * t;
  }
  /// The places of its first row and column.
  __device__ __forceinline__ int row_place(const tile_part& part) const {
    return warp_row(part) + g;
  }
  __device__ __forceinline__ int column_place(const tile_part& part) const {
    return part.column * Tiles::columns + 2 * t;
  }
};

/// Where the sum of the c-th of four columns is.
__device__ __forceinline__ constexpr int half_sum(int i, int h, int c) {
  return 8 * i + 2 * h + c % 2 + 4 * (c / 2);
}

/// Shared memory of the epilogue: where the warps exchange the sums of their columns, and a stage
/// of 16 floats a thread.
template <class Tiles>
struct half_epilogue_memory {
  static constexpr int column_sums = 4 * Tiles::consumers * Tiles::columns;
  static constexpr int threads = 128 * Tiles::consumers;
  static constexpr int floats = column_sums + 16 * threads;

  float* memory;

  /// The sums of the columns over the 16 rows of a warp.
  __device__ __forceinline__ float* of_warp(int warp) const {
    return memory + warp * Tiles::columns;
  }
  /// Four floats of this thread's own.
  __device__ __forceinline__ float* own(int which) const {
    return memory + column_sums + 4 * (which * threads + static_cast<int>(threadIdx.x));
  }
};

/// Stores sums with nothing but a bias, 16 bytes at a time.
template <class Tiles>
__device__ __forceinline__ void store_half_sums(const half_problem& p,
                                                const float (&sums)[Tiles::sums],
                                                const tile_part& part,
                                                const half_consumer<Tiles>& self) {
#pragma unroll
  for (int i = 0; i < Tiles::columns / 16; ++i) {
    const int column = self.column(part, i);
    if (column >= p.columns) continue;
    device::pack<4> bias = {};
    if (p.to.bias != nullptr) bias = device::load<4>(p.to.bias + column);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = self.row(part, h);
      device::pack<4> x;
#pragma unroll
      for (int c = 0; c < 4; ++c) x[c] = sums[half_sum(i, h, c)] + bias[c];
      if (row < p.rows) device::store<4>(p.to.out + std::int64_t{row} * p.to.stride + column, x);
    }
  }
}

/// Four consecutive sums of a row on their way through the epilogue.
template <epilogue_kind Kind, int Width>
class half_four {
 public:
  /// `count` of them are in the matrix, at least with Width 4 all or none; the first is at `at` of
  /// out.
  __device__ __forceinline__ half_four(const product_output& to, std::int64_t at, int count)
      : to_(to), at_(at), count_(count) {
    for_each([&](int c) {
      const auto x = load_other<Kind, Width>(to_, at_ + c);
#pragma unroll
      for (int e = 0; e < Width; ++e) other_[c + e] = x[e];
    });
  }

  /// Returns the terms of column_sums.
  __device__ __forceinline__ device::pack<4> finish(device::pack<4> x) const {
    device::pack<4> terms = {};
    for_each([&](int c) {
      device::pack<Width> sums, other;
#pragma unroll
      for (int e = 0; e < Width; ++e) {
        sums[e] = x[c + e];
        other[e] = other_[c + e];
      }
      sums = finish_sums<Kind, Width>(to_, at_ + c, sums, other);
#pragma unroll
      for (int e = 0; e < Width; ++e) terms[c + e] = sums[e];
    });
    return terms;
  }

 private:
  template <class Body>
  __device__ __forceinline__ void for_each(Body body) const {
#pragma unroll
    for (int c = 0; c < 4; c += Width) {
      if (c < count_) body(c);
    }
  }

  const product_output& to_;
  std::int64_t at_;
  int count_;
  device::pack<4> other_ = {};
};

/// Takes a consumer thread's sums of a tile through the epilogue, 32 columns at a time, by way of
/// shared memory of its own. This is a loop on purpose: unrolled, it is so much code that the
/// instruction cache does not keep up.
template <epilogue_kind Kind, int Width, class Tiles>
__device__ __forceinline__ void store_half_tile_as(const half_problem& p,
                                                   const float (&sums)[Tiles::sums],
                                                   const tile_part& part,
                                                   const half_consumer<Tiles>& self,
                                                   const half_epilogue_memory<Tiles>& memory) {
#pragma unroll 1
  for (int first = 0; first < Tiles::columns / 16; first += 2) {
#pragma unroll
    for (int i = 0; i < Tiles::columns / 16; ++i) {
      if (i / 2 * 2 != first) continue;  // the same for all threads; registers have no index
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        device::pack<4> x;
#pragma unroll
        for (int c = 0; c < 4; ++c) x[c] = sums[half_sum(i, h, c)];
        device::store<4>(memory.own(2 * (i % 2) + h), x);
      }
    }
    device::pack<4> terms[2] = {};
    const auto four = [&](int i, int h) {
      const int row = self.row(part, h), column = self.column(part, first + i);
      return half_four<Kind, Width>(p.to, std::int64_t{row} * p.to.stride + column,
                                    row < p.rows ? p.columns - column : 0);
    };
    const half_four<Kind, Width> fours[2][2] = {{four(0, 0), four(0, 1)}, {four(1, 0), four(1, 1)}};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int column = self.column(part, first + i);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        device::pack<4> x = device::load<4>(memory.own(2 * i + h));
        if (p.to.bias != nullptr) {
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            if (column + c < p.columns) x[c] += p.to.bias[column + c];
          }
        }
        const device::pack<4> y = fours[i][h].finish(x);
#pragma unroll
        for (int c = 0; c < 4; ++c) terms[i][c] += y[c];
      }
    }
    if (p.to.column_sums == nullptr) continue;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2) {  // over g
          terms[i][c] += __shfl_xor_sync(0xffffffffu, terms[i][c], distance);
        }
      }
      if (self.g == 0) {
        device::store<4>(memory.of_warp(4 * self.group + self.warp) + 16 * (first + i) + 4 * self.t,
                         terms[i]);
      }
    }
  }
}

/// Adds up what the warps have left of column_sums, and stores it.
template <class Tiles>
__device__ __forceinline__ void store_half_column_sums(const half_problem& p, const tile_part& part,
                                                       const half_epilogue_memory<Tiles>& memory) {
  constexpr int barrier = 5;
  device::synchronise_some(barrier, memory.threads);
  const int in_tile = static_cast<int>(threadIdx.x);
  const int column = part.column * Tiles::columns + in_tile;
  if (in_tile < Tiles::columns && column < p.columns) {
    float total = 0.0f;
#pragma unroll
    for (int warp = 0; warp < 4 * Tiles::consumers; ++warp) total += memory.of_warp(warp)[in_tile];
    p.to.column_sums[std::int64_t{part.row} * p.columns + column] = total;
  }
  device::synchronise_some(barrier, memory.threads);  // before the next tile's sums
}

template <class Tiles>
__device__ __forceinline__ void store_half_tile(const half_problem& p,
                                                const float (&sums)[Tiles::sums],
                                                const tile_part& part,
                                                const half_consumer<Tiles>& self,
                                                const half_epilogue_memory<Tiles>& memory) {
  with_epilogue_kind(p.to, [&](auto kind) {
    constexpr epilogue_kind Kind = decltype(kind)::value;
    if (Kind == epilogue_kind::plain && p.wide && p.to.column_sums == nullptr) {
      store_half_sums(p, sums, part, self);
    } else if (p.wide) {
      store_half_tile_as<Kind, 4>(p, sums, part, self, memory);
    } else {
      store_half_tile_as<Kind, 1>(p, sums, part, self, memory);
    }
  });
  if (p.to.column_sums != nullptr) store_half_column_sums(p, part, memory);
}

}  // namespace detail
LLMC_NAMESPACE_END
