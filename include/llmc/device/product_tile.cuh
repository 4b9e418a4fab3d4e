/// @file
/// Tiles of a product's operands in shared memory: how they are copied there and how they become
/// fragments of mma.sync, for either layout of an operand in memory.
///
/// An operand is (outer, k): `outer` is a row of the first or a column of the second. A tile is
/// `Outer` wide and 32 k deep. It has lines of consecutive floats as the matrix has: with k
/// innermost a line is one outer, else it is one k.
///
/// A sum may take its k in any order, and outers may be dealt to the instruction in any order as
/// long as results are stored accordingly. Both orders are chosen so that a lane (g, t) needs
/// squares of 4 x 4. One load then brings 4 floats of a square from either kind of line:
///
///  - of each 32 outers, lane g has 4g + (0..3): row (or column) g of four blocks of 8;
///  - of each 16 k, lane t has 4t + (0..3): k = t and t + 4 of one instruction, then of the next.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/copy_async.cuh>
#include <llmc/device/operand.cuh>
#include <llmc/device/tensor_core/precision.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// Lines of `Floats` floats in shared memory. Chunks of 4 floats change places within each group of
/// 8 chunks. 16-byte accesses are served for 8 lanes at once: g = 2q and 2q + 1 with all t. These
/// must touch 8 different places, and they do where lanes (g, t) take
///
///  - chunk t, or chunk 2t, of line 4g: the swizzle 5 moves odd quads of lines to the other half
///    and to the odd places;
///  - chunk g of line 4t: the swizzles 0, 5, 2 and 7 move a pair of chunks to four different pairs
///    of places.
template <int Floats>
struct swizzled_lines {
  static_assert(Floats % 32 == 0, "chunks change places in groups of 8");

  /// The number that a chunk's number is XORed with. Where two lines add up without carries, the
  /// swizzle of the sum is the XOR of their swizzles.
  static __device__ __forceinline__ int swizzle(int line) {
    return ((line >> 2) & 1) * 5 ^ ((line >> 3) & 1) * 2;
  }
  static __device__ __forceinline__ int offset(int line, int chunk) {
    return line * Floats + ((chunk ^ swizzle(line)) << 2);
  }
};

template <layout Order, int Outer>
struct product_tile {
  static constexpr bool inner_first = Order == layout::inner_first;
  static constexpr int depth = 32;
  static constexpr int floats = Outer * depth;
  static constexpr int line_floats = inner_first ? depth : Outer;
  static constexpr int lines = inner_first ? Outer : depth;
  using places = swizzled_lines<line_floats>;
};

/// Copies tile after tile of an operand to shared memory, along k; zeros where the matrix ends. A
/// thread copies the same chunk of several lines.
template <layout Order, int Outer, int Threads>
class product_tile_loader {
  using tile = product_tile<Order, Outer>;
  static constexpr int chunks = tile::line_floats / 4;
  static constexpr int lines_at_once = Threads / chunks;
  static constexpr int turns = tile::lines / lines_at_once;
  static_assert(Threads % chunks == 0 && tile::lines % lines_at_once == 0,
                "the threads share out the chunks evenly");
  static_assert((lines_at_once & (lines_at_once - 1)) == 0, "for the swizzle of a sum of lines");

 public:
  /// The tile begins at outer `first` of `outers`. `wide`: lines can be read 16 bytes at a time,
  /// and their lengths are multiples of 4.
  __device__ __forceinline__ product_tile_loader(const float* matrix, std::int64_t stride,
                                                 bool wide, std::int64_t first, std::int64_t outers)
      : stride_(stride),
        from_(matrix + (tile::inner_first ? first * stride : first) + own_line() * stride +
              4 * own_chunk()),
        outers_left_(static_cast<int>(outers - first < Outer ? outers - first : Outer) -
                     (tile::inner_first ? own_line() : 4 * own_chunk())),
        to_(tile::places::offset(own_line(), own_chunk())),
        wide_(wide) {}

  /// Begins to copy the next tile; `depth` of its k are in the matrix.
  __device__ __forceinline__ void load_next(float* memory, int depth) {
    const int lines = tile::inner_first ? outers_left_ : depth - own_line();
    const int along = tile::inner_first ? depth - 4 * own_chunk() : outers_left_;
    const std::int64_t step = lines_at_once * stride_;
    const float* from = from_;
    if (wide_) {
#pragma unroll
      for (int i = 0; i < turns; ++i, from += step) {
        copy_async_4(place(memory, i), from, i * lines_at_once < lines && along > 0);
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < turns; ++i, from += step) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          copy_async_1(place(memory, i) + j, from + j, i * lines_at_once < lines && j < along);
        }
      }
    }
    from_ += tile::inner_first ? tile::depth : tile::depth * stride_;
  }

 private:
  static __device__ __forceinline__ int own_line() {
    return static_cast<int>(threadIdx.x) / chunks;
  }
  static __device__ __forceinline__ int own_chunk() {
    return static_cast<int>(threadIdx.x) % chunks;
  }
  __device__ __forceinline__ float* place(float* memory, int turn) const {
    const int line = turn * lines_at_once;
    return memory + (to_ ^ (tile::places::swizzle(line) << 2)) + line * tile::line_floats;
  }

  std::int64_t stride_;
  const float* from_;  ///< this thread's first chunk of the next tile
  int outers_left_;    ///< in this tile, from the first of this thread on
  int to_;
  bool wide_;
};

/// Reads a lane's squares.
template <layout Order, int Outer>
class product_tile_reader {
  using tile = product_tile<Order, Outer>;

 public:
  /// For outers from `first` on, a multiple of 32.
  __device__ __forceinline__ explicit product_tile_reader(int first) {
    const mma_lane lane;
    place_ = tile::inner_first ? tile::places::offset(first + 4 * lane.g, lane.t)
                               : tile::places::offset(4 * lane.t, first / 4 + lane.g);
  }

  /// square[j][q] belongs to outer 32 * group + 4g + j and k 16 * half + 4t + q.
  __device__ __forceinline__ void read(float (&square)[4][4], const float* memory, int group,
                                       int half) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // The other half of a line of k is 4 chunks away, before or after the swizzle.
      const int at = tile::inner_first ? (half == 0 ? place_ : place_ ^ 16) + (32 * group + i) * 32
                                       : place_ + 32 * group + (16 * half + i) * Outer;
      const float4 x = *reinterpret_cast<const float4*>(memory + at);
      const float line[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) (tile::inner_first ? square[i][j] : square[j][i]) = line[j];
    }
  }

 private:
  int place_;
};

/// The A fragments of a square: a[step][m] for its two k-steps and its two tiles of 16 rows.
template <precision Arithmetic>
__device__ __forceinline__ void set_row_fragments(operand_fragment<Arithmetic, 4> (&a)[2][2],
                                                  const float (&square)[4][4]) {
#pragma unroll
  for (int step = 0; step < 2; ++step) {
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      a[step][m] = precision_traits<Arithmetic>::split(
          {square[2 * m][2 * step], square[2 * m + 1][2 * step], square[2 * m][2 * step + 1],
           square[2 * m + 1][2 * step + 1]});
    }
  }
}

/// The B fragments of a square: b[step][n] for its two k-steps and its four tiles of 8 columns.
template <precision Arithmetic>
__device__ __forceinline__ void set_column_fragments(operand_fragment<Arithmetic, 2> (&b)[2][4],
                                                     const float (&square)[4][4]) {
#pragma unroll
  for (int step = 0; step < 2; ++step) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      b[step][n] =
          precision_traits<Arithmetic>::split({square[n][2 * step], square[n][2 * step + 1]});
    }
  }
}

/// Puts a warp's sums, products of such squares, into lines of `Floats` floats, one line a row.
/// Tiles 2m and 2m + 1 (16 rows each) hold rows 32m and on; tiles 4n to 4n + 3 (8 columns each)
/// hold columns 32n and on. The warp's first row and column are multiples of 32.
template <int Floats, int Rows, int Columns>
__device__ __forceinline__ void park_sums(float* memory, int first_row, int first_column,
                                          const mma_accumulators<Rows, Columns>& sums) {
  const mma_lane lane;
#pragma unroll
  for (int m = 0; m < Rows; ++m) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int row = first_row + m / 2 * 32 + 4 * lane.g + m % 2 * 2 + e;
#pragma unroll
      for (int n = 0; n < Columns; n += 4) {
#pragma unroll
        for (int f = 0; f < 2; ++f) {
          const int i = 2 * e + f;
          const int chunk = first_column / 4 + 2 * n + 2 * lane.t + f;
          *reinterpret_cast<float4*>(memory + swizzled_lines<Floats>::offset(row, chunk)) =
              make_float4(sums[m][n][i], sums[m][n + 1][i], sums[m][n + 2][i], sums[m][n + 3][i]);
        }
      }
    }
  }
}

}  // namespace device
LLMC_NAMESPACE_END
