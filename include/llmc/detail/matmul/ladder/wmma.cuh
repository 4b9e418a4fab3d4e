/// @file
/// The rung that steps to the tensor cores, by CUDA's own interface to them: nvcuda::wmma in TF32
/// (sm_80 on).
///
/// A warp holds fragments and multiplies them as a whole: 16 x 16 sums += (16 x 8) (8 x 16). Which
/// register holds which number is not known. So operands must come from memory by load_matrix_sync,
/// and sums must go back there before a bias can be added.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <mma.h>

#include <cstdint>

#include <llmc/detail/matmul/ladder/problem.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/operand.cuh>
#include <llmc/device/tensor_core/mma.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Four warps share a square of 64 x 64 sums, 32 x 32 each: 2 x 2 fragments.
struct wmma_tile {
  static constexpr int side = 64;
  static constexpr int depth = 32;
  static constexpr int threads = 128;
  static constexpr int line = depth + 4;     ///< floats of an outer: rows of a fragment then are
                                             ///< in different banks
  static constexpr int sum_line = side + 4;  ///< floats of a row of sums
  static constexpr int floats = 2 * side * line;
  static_assert(side * sum_line <= floats, "the sums lie where the operands were");
  /// An architecture without these instructions gets an empty kernel that says so by its bounds.
  static constexpr int launch_bound = device::has_tf32_mma ? threads : 32;
};

/// Copies a tile of an operand with k innermost; a warp copies 32 k of an outer. Zeros where the
/// matrix ends.
__device__ __forceinline__ void load_wmma_lines(float* to, const products::operand& m,
                                                std::int64_t outers, std::int64_t first_outer,
                                                std::int64_t first_k, std::int64_t inner) {
  const int k = static_cast<int>(threadIdx.x) % wmma_tile::depth;
  for (int outer = static_cast<int>(threadIdx.x) / wmma_tile::depth; outer < wmma_tile::side;
       outer += wmma_tile::threads / wmma_tile::depth) {
    const bool inside = first_outer + outer < outers && first_k + k < inner;
    to[outer * wmma_tile::line + k] = inside ? *device::element<products::layout::inner_first>(
                                                   m, first_outer + outer, first_k + k)
                                             : 0.0f;
  }
}

/// Leaves the sums of a tile in `memory`, rows of `sum_line` floats.
template <class Tile>
__device__ __forceinline__ void make_wmma_sums(float* memory, const rung_problem& p,
                                               std::int64_t row, std::int64_t column) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // mma.h has no TF32 elsewhere
  namespace wmma = nvcuda::wmma;
  using tf32 = wmma::precision::tf32;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> sums[2][2];
  wmma::fragment<wmma::matrix_a, 16, 16, 8, tf32, wmma::row_major> a[2];
  wmma::fragment<wmma::matrix_b, 16, 16, 8, tf32, wmma::col_major> b[2];
  float* const first = memory;
  float* const second = memory + Tile::side * Tile::line;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int own_row = warp / 2 * 32;
  const int own_column = warp % 2 * 32;
  const auto round = [](auto& fragment) {
#pragma unroll
    for (int i = 0; i < fragment.num_elements; ++i) {
      fragment.x[i] = wmma::__float_to_tf32(fragment.x[i]);
    }
  };

#pragma unroll
  for (int i = 0; i < 4; ++i) wmma::fill_fragment(sums[i / 2][i % 2], 0.0f);
  for (std::int64_t k = 0; k < p.inner; k += Tile::depth) {
    load_wmma_lines(first, p.first, p.rows, row, k, p.inner);
    load_wmma_lines(second, p.second, p.columns, column, k, p.inner);
    __syncthreads();
#pragma unroll
    for (int step = 0; step < Tile::depth; step += 8) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int line = 16 * i * Tile::line + step;
        wmma::load_matrix_sync(a[i], first + own_row * Tile::line + line, Tile::line);
        wmma::load_matrix_sync(b[i], second + own_column * Tile::line + line, Tile::line);
        round(a[i]);
        round(b[i]);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        wmma::mma_sync(sums[i / 2][i % 2], a[i / 2], b[i % 2], sums[i / 2][i % 2]);
      }
    }
    __syncthreads();  // before the next tiles, or the sums, come
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float* const to =
        memory + (own_row + 16 * (i / 2)) * Tile::sum_line + own_column + 16 * (i % 2);
    wmma::store_matrix_sync(to, sums[i / 2][i % 2], Tile::sum_line, wmma::mem_row_major);
  }
  __syncthreads();
#endif
}

/// For the forward product.
template <class Tile>
__global__ void __launch_bounds__(Tile::launch_bound) wmma_product_kernel(rung_problem p) {
  if constexpr (device::has_tf32_mma) {
    __shared__ alignas(128) float memory[Tile::floats];
    for_each_tile(p, Tile::side, [&](std::int64_t row, std::int64_t column) {
      make_wmma_sums<Tile>(memory, p, row, column);
      for (int i = static_cast<int>(threadIdx.x); i < Tile::side * Tile::side; i += Tile::threads) {
        const int r = i / Tile::side;
        const int c = i % Tile::side;
        put_sum(p, row + r, column + c, memory[r * Tile::sum_line + c]);
      }
      __syncthreads();  // before the next tile's operands come
    });
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
