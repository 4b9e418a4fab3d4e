/// @file
/// Products of a warp's rows with a tile in shared memory, on tensor cores, for kernels that keep
/// one operand (queries, say) and stream the other past it: attention and its like.
///
/// A tile holds vectors of `Features` numbers, one a row. It is used in two ways:
///
///  - as rows, A tile^T: every row is a column of the result (scores from keys);
///  - as columns, A tile: every row is one step of the sum (a weighted sum of values), where A is
///    itself the result of a product as rows and never leaves its registers.
///
/// How lanes share out the work is chosen for the loads. A sum may be taken in any order, so the
/// features (as rows) and the rows (as columns) are dealt to the k of the instruction such that a
/// lane's numbers lie side by side: one 16-byte load feeds two steps, and the result of the first
/// product already is the A fragment of the second.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/tensor_core/precision.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// Where the numbers of a tile lie in shared memory. A row is cut into chunks of 4 floats; within
/// each group of 8 chunks, chunk c of row r lies at place c ^ swizzle(r), which leaves both uses of
/// the tile without bank conflicts and needs no padding. Rows take a multiple of 32 floats.
template <int Features>
struct mma_tile {
  static_assert(Features % 16 == 0, "a tile's features come in steps of 16");

  static constexpr int stride = (Features + 31) / 32 * 32;

  /// Rows g and g + 1 differ in bit 2 and rows 0, 2, 4, 6 in bits 1 and 2: the eight lanes that
  /// are served at once then touch eight different places.
  static __device__ __forceinline__ int swizzle(int row) {
    return (row & 2) | (((row ^ (row >> 2)) & 1) << 2);
  }
  /// The place of a chunk of the first group; group i is 32 * i floats further on.
  static __device__ __forceinline__ int offset(int row, int chunk) {
    return row * stride + ((chunk ^ swizzle(row)) << 2);
  }
};

/// The places that a lane reads in a tile, in floats.
template <int Features>
class mma_tile_reader {
  using tile = mma_tile<Features>;

 public:
  static constexpr int steps = Features / 16;        ///< of 16 features, two k-steps, as rows
  static constexpr int full_blocks = Features / 32;  ///< of 32 features as columns
  static constexpr bool has_half_block = Features % 32 != 0;

  __device__ __forceinline__ mma_tile_reader() {
    const mma_lane lane;
    row_even_ = tile::offset(lane.g, lane.t);
    row_odd_ = tile::offset(lane.g, lane.t + 4);
    column_ = tile::offset(2 * lane.t, lane.g);
    half_column_ = tile::offset(2 * lane.t, lane.g / 2) + lane.g % 2 * 2;
  }

  /// As rows: features 16 * step + 4t + (0..3) of row 8n + g. The first two are k = t and t + 4 of
  /// one k-step, the last two of the next.
  __device__ __forceinline__ float4 row(const float* memory, int n, int step) const {
    const int at = (step % 2 == 0 ? row_even_ : row_odd_) + step / 2 * 32;
    return *reinterpret_cast<const float4*>(memory + n * 8 * tile::stride + at);
  }

  /// As columns: features 32 * block + 4g + (0..3) of row 8k + 2t + `second`. The row is k = t or t
  /// + 4 of k-step k, because lanes hold columns 2t and 2t + 1 of an accumulator. The features are
  /// column g of four tiles.
  __device__ __forceinline__ float4 column(const float* memory, int k, int block,
                                           bool second) const {
    const int at = second ? tile::stride + (column_ ^ 16) : column_;
    return *reinterpret_cast<const float4*>(memory + k * 8 * tile::stride + block * 32 + at);
  }
  /// The same for a block of 16 features: two of them, 32 * block + 2g + (0..1), column g of two
  /// tiles.
  __device__ __forceinline__ float2 half_column(const float* memory, int k, int block,
                                                bool second) const {
    const int at = second ? tile::stride + (half_column_ ^ 16) : half_column_;
    return *reinterpret_cast<const float2*>(memory + k * 8 * tile::stride + block * 32 + at);
  }

 private:
  int row_even_, row_odd_, column_, half_column_;
};

/// A warp's own rows, 16 * MTiles of them, kept in shared memory as A fragments: each lane reads
/// back exactly what it wrote, with one 16-byte load a fragment, so no barrier is needed. With
/// `SplitOnce` a number of two parts is kept as both (twice the memory); else it is kept whole and
/// split each time it is loaded.
template <precision Arithmetic, int MTiles, int Features, bool SplitOnce>
class parked_rows {
  using traits = precision_traits<Arithmetic>;
  using fragment = operand_fragment<Arithmetic, 4>;
  static constexpr bool keeps_low = traits::is_split && SplitOnce;
  static constexpr bool splits_late = traits::is_split && !SplitOnce;
  static constexpr int parts = keeps_low ? 2 : 1;

 public:
  /// Shared memory of one warp.
  static constexpr int floats = MTiles * (Features / 8) * parts * 128;

  __device__ __forceinline__ explicit parked_rows(float* memory)
      : lane_(reinterpret_cast<uint4*>(memory) + threadIdx.x % 32) {}

  /// Features 16 * step + 4t + (0..3) of rows 16m + g and 16m + g + 8.
  __device__ __forceinline__ void set(int m, int step, float4 upper, float4 lower) {
    const float values[2][4] = {{upper.x, lower.x, upper.y, lower.y},
                                {upper.z, lower.z, upper.w, lower.w}};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint4* const to = lane_ + place(m, step, half);
      if constexpr (splits_late) {
        to[0] = packed(values[half]);
      } else {
        const fragment operand = traits::split(values[half]);
        to[0] = packed(operand.high);
        if constexpr (keeps_low) to[32] = packed(operand.low);
      }
    }
  }

  /// The A fragment of k-step 2 * step + half.
  __device__ __forceinline__ fragment get(int m, int step, int half) const {
    const uint4* const from = lane_ + place(m, step, half);
    if constexpr (splits_late) {
      float values[4];
      unpack(values, from[0]);
      return traits::split(values);
    } else {
      fragment operand;
      unpack(operand.high, from[0]);
      if constexpr (keeps_low) unpack(operand.low, from[32]);
      return operand;
    }
  }

 private:
  static __device__ __forceinline__ int place(int m, int step, int half) {
    return ((m * (Features / 16) + step) * 2 + half) * parts * 32;
  }
  static __device__ __forceinline__ uint4 packed(const std::uint32_t (&x)[4]) {
    return make_uint4(x[0], x[1], x[2], x[3]);
  }
  static __device__ __forceinline__ uint4 packed(const float (&x)[4]) {
    return make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]),
                      __float_as_uint(x[3]));
  }
  static __device__ __forceinline__ void unpack(std::uint32_t (&x)[4], uint4 from) {
    x[0] = from.x;
    x[1] = from.y;
    x[2] = from.z;
    x[3] = from.w;
  }
  static __device__ __forceinline__ void unpack(float (&x)[4], uint4 from) {
    x[0] = __uint_as_float(from.x);
    x[1] = __uint_as_float(from.y);
    x[2] = __uint_as_float(from.z);
    x[3] = __uint_as_float(from.w);
  }

  uint4* lane_;
};

/// scores = rows tile^T: scores[m][n] is for the warp's rows 16m.. and the tile's rows 8n...
///
/// The small products of split operands have a sum of their own, which is added once, with
/// rounding.
template <precision Arithmetic, int MTiles, int NTiles, int Features, bool SplitOnce>
__device__ __forceinline__ void multiply_rows(
    mma_accumulators<MTiles, NTiles>& scores,
    const parked_rows<Arithmetic, MTiles, Features, SplitOnce>& rows, const float* tile,
    const mma_tile_reader<Features>& reader) {
  using traits = precision_traits<Arithmetic>;
  constexpr int in_flight = MTiles == 1 && NTiles % 4 == 0 ? 4 : 2;
  mma_accumulators<MTiles, NTiles> corrections;
  set_zero<MTiles, NTiles>(scores);
  if constexpr (traits::is_split) set_zero<MTiles, NTiles>(corrections);
#pragma unroll
  for (int step = 0; step < Features / 16; ++step) {
    operand_fragment<Arithmetic, 4> a[MTiles][2];
#pragma unroll
    for (int m = 0; m < MTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) a[m][half] = rows.get(m, step, half);
    }
#pragma unroll
    for (int n0 = 0; n0 < NTiles; n0 += in_flight) {
      operand_fragment<Arithmetic, 2> b[in_flight][2];
#pragma unroll
      for (int n = 0; n < in_flight; ++n) {
        const float4 x = reader.row(tile, n0 + n, step);
        b[n][0] = traits::split({x.x, x.y});
        b[n][1] = traits::split({x.z, x.w});
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto for_each_tile = [&](auto multiply) {
#pragma unroll
          for (int n = 0; n < in_flight; ++n) {
#pragma unroll
            for (int m = 0; m < MTiles; ++m) multiply(m, n);
          }
        };
        if constexpr (traits::is_split) {
          for_each_tile([&](int m, int n) {
            traits::multiply(corrections[m][n0 + n], a[m][half].low, b[n][half].high);
          });
        }
        for_each_tile([&](int m, int n) {
          traits::multiply(scores[m][n0 + n], a[m][half].high, b[n][half].high);
        });
        if constexpr (traits::is_split) {
          for_each_tile([&](int m, int n) {
            traits::multiply(corrections[m][n0 + n], a[m][half].high, b[n][half].low);
          });
        }
      }
    }
  }
  if constexpr (traits::is_split) {
#pragma unroll
    for (int m = 0; m < MTiles; ++m) {
#pragma unroll
      for (int n = 0; n < NTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[m][n][i] += corrections[m][n][i];
      }
    }
  }
}

/// An accumulator as A fragment of the next product: k = t and t + 4 are its columns 2t and 2t + 1.
/// Where the precision rounds, the caller has multiplied it by the traits' `rounding` already.
template <precision Arithmetic>
__device__ __forceinline__ operand_fragment<Arithmetic, 4> fragment_of(const float (&x)[4]) {
  return precision_traits<Arithmetic>::split_rounded({x[0], x[2], x[1], x[3]});
}

/// Sets number i of a fragment. Numbers that are split as they arrive, instead of in pairs, need
/// fewer registers at a time: exact heads of 64 are 2 to 3% faster for it (H200).
template <precision Arithmetic>
__device__ __forceinline__ void set_number(operand_fragment<Arithmetic, 2>& b, int i, float x) {
  const operand_fragment<Arithmetic, 1> one = precision_traits<Arithmetic>::split({x});
  b.high[i] = one.high[0];
  if constexpr (precision_traits<Arithmetic>::is_split) b.low[i] = one.low[0];
}

/// The B fragments of one block of a tile used as columns: of its 4 or 2 tiles of 8 features.
template <precision Arithmetic, int Tiles, int Features>
__device__ __forceinline__ void load_columns(operand_fragment<Arithmetic, 2> (&b)[Tiles],
                                             const mma_tile_reader<Features>& reader,
                                             const float* tile, int k, int block) {
#pragma unroll
  for (int second = 0; second < 2; ++second) {
    if constexpr (Tiles == 4) {
      const float4 x = reader.column(tile, k, block, second != 0);
      set_number<Arithmetic>(b[0], second, x.x);
      set_number<Arithmetic>(b[1], second, x.y);
      set_number<Arithmetic>(b[2], second, x.z);
      set_number<Arithmetic>(b[3], second, x.w);
    } else {
      const float2 x = reader.half_column(tile, k, block, second != 0);
      set_number<Arithmetic>(b[0], second, x.x);
      set_number<Arithmetic>(b[1], second, x.y);
    }
  }
}

/// One block of multiply_columns.
template <int Tiles, precision Arithmetic, int MTiles, int KTiles, int Features, class Factor>
__device__ __forceinline__ void multiply_column_block(mma_accumulators<MTiles, Features / 8>& sums,
                                                      const mma_accumulators<MTiles, KTiles>& a,
                                                      const float* tile,
                                                      const mma_tile_reader<Features>& reader,
                                                      int block, Factor factor) {
  using traits = precision_traits<Arithmetic>;
  mma_accumulators<MTiles, Tiles> large, corrections;
  const auto for_each_sum = [&](auto body) {
#pragma unroll
    for (int m = 0; m < MTiles; ++m) {
#pragma unroll
      for (int n = 0; n < Tiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) body(m, n, i, sums[m][4 * block + n][i]);
      }
    }
  };
  if constexpr (traits::is_split) {
    set_zero<MTiles, Tiles>(large);
    set_zero<MTiles, Tiles>(corrections);
  } else {
    for_each_sum([&](int m, int, int i, float& sum) { sum *= factor(m, i / 2); });
  }
#pragma unroll
  for (int k = 0; k < KTiles; ++k) {
    operand_fragment<Arithmetic, 4> p[MTiles];
#pragma unroll
    for (int m = 0; m < MTiles; ++m) p[m] = fragment_of<Arithmetic>(a[m][k]);
    operand_fragment<Arithmetic, 2> b[Tiles];
    load_columns<Arithmetic>(b, reader, tile, k, block);
    const auto for_each_tile = [&](auto multiply) {
#pragma unroll
      for (int n = 0; n < Tiles; ++n) {
#pragma unroll
        for (int m = 0; m < MTiles; ++m) multiply(m, n);
      }
    };
    if constexpr (traits::is_split) {
      for_each_tile(
          [&](int m, int n) { traits::multiply(corrections[m][n], p[m].low, b[n].high); });
      for_each_tile(
          [&](int m, int n) { traits::multiply(corrections[m][n], p[m].high, b[n].low); });
      for_each_tile([&](int m, int n) { traits::multiply(large[m][n], p[m].high, b[n].high); });
    } else {
      for_each_tile(
          [&](int m, int n) { traits::multiply(sums[m][4 * block + n], p[m].high, b[n].high); });
    }
  }
  if constexpr (traits::is_split) {
    for_each_sum([&](int m, int n, int i, float& sum) {
      sum = fmaf(sum, factor(m, i / 2), large[m][n][i] + corrections[m][n][i]);
    });
  }
}

/// sums = factor * sums + a tile, where `a` came from multiply_rows and `factor(m, half)` is for
/// rows 16m + 8 * half + g. The sums' features are dealt to lanes as for_each_sum_chunk says.
///
/// Where operands are split, each call adds up in fresh accumulators, large and small products
/// apart, and adds those to `sums` with rounding; the tensor core's own truncating additions would
/// pile up over many tiles.
template <precision Arithmetic, int MTiles, int KTiles, int Features, class Factor>
__device__ __forceinline__ void multiply_columns(mma_accumulators<MTiles, Features / 8>& sums,
                                                 const mma_accumulators<MTiles, KTiles>& a,
                                                 const float* tile,
                                                 const mma_tile_reader<Features>& reader,
                                                 Factor factor) {
  using shape = mma_tile_reader<Features>;
#pragma unroll
  for (int block = 0; block < shape::full_blocks; ++block) {
    multiply_column_block<4, Arithmetic, MTiles, KTiles, Features>(sums, a, tile, reader, block,
                                                                   factor);
  }
  if constexpr (shape::has_half_block) {
    multiply_column_block<2, Arithmetic, MTiles, KTiles, Features>(sums, a, tile, reader,
                                                                   shape::full_blocks, factor);
  }
}

/// The factor of multiply_columns that leaves the sums as they are.
struct unchanged {
  __device__ __forceinline__ constexpr float operator()(int, int) const { return 1.0f; }
};

/// Calls `store(m, half, feature, float4)` for all that this lane holds of the sums: four
/// consecutive features of row 16m + 8 * half + g.
template <int MTiles, int Features, class Store>
__device__ __forceinline__ void for_each_sum_chunk(
    const mma_accumulators<MTiles, Features / 8>& sums, Store store) {
  using shape = mma_tile_reader<Features>;
  const int t = mma_lane().t;
#pragma unroll
  for (int m = 0; m < MTiles; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int block = 0; block < shape::full_blocks; ++block) {
#pragma unroll
        for (int column = 0; column < 2; ++column) {
          const auto& tiles = sums[m];
          const int n = 4 * block, i = 2 * half + column;
          store(m, half, 32 * block + 8 * t + 4 * column,
                make_float4(tiles[n][i], tiles[n + 1][i], tiles[n + 2][i], tiles[n + 3][i]));
        }
      }
      if constexpr (shape::has_half_block) {
        constexpr int n = 4 * shape::full_blocks;
        const auto& tiles = sums[m];
        const int i = 2 * half;
        store(m, half, 32 * shape::full_blocks + 4 * t,
              make_float4(tiles[n][i], tiles[n + 1][i], tiles[n][i + 1], tiles[n + 1][i + 1]));
      }
    }
  }
}

}  // namespace device
LLMC_NAMESPACE_END
