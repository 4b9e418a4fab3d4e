/// @file
/// Tiles of a matrix product in shared memory for mma.sync, and how a warp reads its fragments.
///
/// A tile is 32 k deep and `Outer` rows (or columns) wide. It lies as the matrix does: with k
/// innermost, [Outer][32], or with k outermost, [32][Outer]. Either way it is cut into chunks of 4
/// floats, and chunks change places within their line (place_of) so that reading and writing touch
/// all banks equally.
///
/// A lane (g, t) reads its numbers 16 bytes at a time: of 32 rows, rows 4g..4g+3; of 16 k, k
/// 4t..4t+3. The sum takes its k in any order, and rows may be dealt to the instruction in any
/// order as long as results are stored accordingly, so these are what the instruction gets as its
/// rows g and g + 8 and its k t and t + 4, several instructions in turn.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/copy_async.cuh>
#include <llmc/device/mma.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

template <bool InnerFirst, int Outer>
struct product_tile {
  static constexpr int depth = 32;
  static constexpr int floats = Outer * depth;
  static constexpr int line = InnerFirst ? depth : Outer;  ///< floats side by side
  static constexpr int lines = InnerFirst ? Outer : depth;
  static constexpr int chunks = line / 4;  ///< in a line

  /// Where chunk c of a line begins.
  static __device__ __forceinline__ int place_of(int at_line, int chunk) {
    const int turned = InnerFirst ? (at_line >> 2 & 1) << 2 : (at_line >> 2 & 3) << 1;
    return at_line * line + ((chunk ^ turned) << 2);
  }
};

/// A lane's numbers of 32 rows and 16 k: x[j][q] is of row 4g + j and k 4t + q.
template <bool InnerFirst, int Outer>
__device__ __forceinline__ void load_fragment(float (&x)[4][4], const float* tile, int first_row,
                                              int first_k, mma_lane lane) {
  using layout = product_tile<InnerFirst, Outer>;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int place = InnerFirst
                          ? layout::place_of(first_row + 4 * lane.g + i, first_k / 4 + lane.t)
                          : layout::place_of(first_k + 4 * lane.t + i, first_row / 4 + lane.g);
    const float4 v = *reinterpret_cast<const float4*>(tile + place);
    const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (InnerFirst) {
        x[i][j] = values[j];
      } else {
        x[j][i] = values[j];
      }
    }
  }
}

/// Copies tiles of a matrix to shared memory, one 32 k further at each call; zeros where the matrix
/// ends. Width 4 wants 16-byte aligned lines whose lengths are multiples of 4.
template <bool InnerFirst, int Outer, int Threads, int Width>
class product_tile_loader {
  using layout = product_tile<InnerFirst, Outer>;
  static constexpr int line_step = Threads / layout::chunks;
  static constexpr int turns = layout::lines / line_step;
  static_assert(Threads % layout::chunks == 0 && layout::lines % line_step == 0,
                "the threads must share out the chunks evenly");

 public:
  /// The tile's first row is `first_row` of `rows`; the sum is over `inner`.
  __device__ __forceinline__ product_tile_loader(const float* matrix, std::int64_t stride,
                                                 std::int64_t first_row, std::int64_t rows,
                                                 std::int64_t inner)
      : stride_(stride),
        chunk_(static_cast<int>(threadIdx.x) % layout::chunks),
        line_(static_cast<int>(threadIdx.x) / layout::chunks),
        rows_left_(static_cast<int>(rows - first_row < Outer ? rows - first_row : Outer)),
        inner_left_(inner),
        from_(matrix + (InnerFirst ? first_row * stride : first_row) + line_ * stride +
              4 * chunk_) {}

  __device__ __forceinline__ void load_next(float* tile) {
#pragma unroll
    for (int i = 0; i < turns; ++i) {
      const int line = line_ + i * line_step;
      float* const to = tile + layout::place_of(line, chunk_);
      const float* const from = from_ + i * line_step * stride_;
      const std::int64_t along = (InnerFirst ? inner_left_ : rows_left_) - 4 * chunk_;
      const bool inside = line < (InnerFirst ? rows_left_ : inner_left_);
      if constexpr (Width == 4) {
        copy_async_4(to, inside && along > 0 ? from : from_, inside && along > 0);
      } else {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          const bool valid = inside && v < along;
          copy_async_1(to + v, valid ? from + v : from_, valid);
        }
      }
    }
    from_ += InnerFirst ? layout::depth : layout::depth * stride_;
    inner_left_ -= layout::depth;
  }

 private:
  std::int64_t stride_;
  int chunk_;
  int line_;
  int rows_left_;  ///< in this tile
  std::int64_t inner_left_;
  const float* from_;
};

}  // namespace device
LLMC_NAMESPACE_END
