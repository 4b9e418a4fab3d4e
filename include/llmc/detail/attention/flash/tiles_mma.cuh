/// @file
/// What the tensor core kernels of fused attention share: tile sizes, how tiles come into shared
/// memory, and how a warp's own rows are parked and its results stored.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <llmc/detail/attention/flash/problem.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/copy_async.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/device/tensor_core/mma_tile.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The tiles of a kernel. Each of 4 warps owns 16 * MTiles rows of the block and keeps `Operands`
/// vectors of each row parked; tiles of `Inner` rows of two tensors stream past them, two in shared
/// memory at a time.
template <precision Arithmetic, int Features, int MTiles, int Inner, int Operands, int BlocksPerSm>
struct flash_tiles {
  static constexpr precision arithmetic = Arithmetic;
  using traits = device::precision_traits<Arithmetic>;
  static constexpr int features = Features;
  static constexpr int m_tiles = MTiles;
  static constexpr int inner = Inner;
  static constexpr int n_tiles = Inner / 8;
  static constexpr int blocks_per_sm = BlocksPerSm;

  static constexpr int warps = 4;
  static constexpr int threads = 32 * warps;
  static constexpr int rows_per_warp = 16 * MTiles;
  static constexpr int rows = rows_per_warp * warps;

  /// Operands of one part take probabilities that are rounded already: adding this to an exponent
  /// multiplies by the factor that rounds.
  static constexpr float rounding_exponent = traits::is_split ? 0.0f : traits::log2_rounding;

  /// Above 64 features, parking both parts of split numbers would not leave room for two blocks on
  /// an SM.
  using parked = device::parked_rows<Arithmetic, MTiles, Features, (Features <= 64)>;
  using reader = device::mma_tile_reader<Features>;
  using row_sums = device::mma_accumulators<MTiles, Features / 8>;
  using scores = device::mma_accumulators<MTiles, Inner / 8>;

  static constexpr int tile_floats = Inner * device::mma_tile<Features>::stride;
  static constexpr int stage_floats = 2 * tile_floats;
  static constexpr int parked_floats = Operands * parked::floats;  ///< of one warp
  static constexpr std::size_t shared_bytes =
      sizeof(float) * (2 * stage_floats + warps * parked_floats);
};

/// The number of this thread's warp. It comes from one lane, so that the compiler knows it to be
/// the same for all 32: what follows from it then needs no registers of theirs, and branches on it
/// need no reconvergence.
__device__ __forceinline__ int own_warp() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
}

/// Which tile a stream takes next.
enum class tile_order : int { forwards = 1, backwards = -1 };

/// Streams consecutive tiles of two matrices into shared memory, one tile behind the other, with
/// all threads of the block. Rows past the sequence and features past the head size become zeros.
template <class Tiles, tile_order Order>
class tile_stream {
  using tile = device::mma_tile<Tiles::features>;
  static constexpr int lanes = 8;  ///< threads side by side in a row, a chunk of 4 floats each
  static constexpr int rows_at_once = Tiles::threads / lanes;
  static constexpr int chunks = Tiles::features / 4;

 public:
  __device__ __forceinline__ tile_stream(vectors a, vectors b, int first_row)
      : stride_{a.stride, b.stride},
        from_{own_place(a, first_row), own_place(b, first_row)},
        to_(tile::offset(own_row(), own_chunk())) {}

  /// Begins to copy the next tiles, whose first row is `first_row`.
  __device__ __forceinline__ void load_next(const flash_problem& p, int first_row, float* memory) {
    const auto is_inside = [&](int row, int feature) {
      return first_row + row < p.positions && feature < p.head_size;
    };
    if (p.access == row_access::whole && first_row + Tiles::inner <= p.positions) {
      for_each_chunk(
          memory, [](float* to, const float* from, int, int) { device::copy_async_4(to, from); });
    } else if (p.access != row_access::narrow) {
      for_each_chunk(memory, [&](float* to, const float* from, int row, int feature) {
        device::copy_async_4(to, from, is_inside(row, feature));
      });
    } else {
      for_each_chunk(memory, [&](float* to, const float* from, int row, int feature) {
#pragma unroll 1
        for (int i = 0; i < 4; ++i) {
          device::copy_async_1(to + i, from + i, is_inside(row, feature + i));
        }
      });
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) from_[i] += rows_further(i, static_cast<int>(Order) * Tiles::inner);
  }

 private:
  static __device__ __forceinline__ int own_row() {
    return static_cast<int>(threadIdx.x) / lanes;
  }
  static __device__ __forceinline__ int own_chunk() {
    return static_cast<int>(threadIdx.x) % lanes;
  }
  static __device__ __forceinline__ const float* own_place(vectors v, int first_row) {
    return v.first + static_cast<std::int64_t>(first_row + own_row()) * v.stride + 4 * own_chunk();
  }
  __device__ __forceinline__ std::int64_t rows_further(int matrix, int rows) const {
    return static_cast<std::int64_t>(rows) * stride_[matrix];
  }

  /// Calls `copy(to, from, row, feature)`. Rows 16 apart share a swizzle, and chunks 8 apart lie 32
  /// floats apart, so one address serves all of a thread's chunks.
  template <class Copy>
  __device__ __forceinline__ void for_each_chunk(float* memory, Copy copy) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int row = 0; row < Tiles::inner; row += rows_at_once) {
        const float* const from = from_[i] + rows_further(i, row);
        float* const to = memory + to_ + i * Tiles::tile_floats + row * tile::stride;
#pragma unroll
        for (int chunk = 0; chunk < chunks; chunk += lanes) {
          if (chunk + lanes <= chunks || chunk + own_chunk() < chunks) {
            copy(to + 4 * chunk, from + 4 * chunk, row + own_row(), 4 * (chunk + own_chunk()));
          }
        }
      }
    }
  }

  int stride_[2];
  const float* from_[2];  ///< this thread's first chunk of the next tiles
  int to_;
};

/// Calls `visit(step, load)` for each 16 features of the rows that the warp parks. `load(matrix,
/// stride, row)` gives the four of them that belong to this lane, of any row; zeros past the end.
template <class Tiles, class Visit>
__device__ __forceinline__ void for_each_parked_step(const flash_problem& p, Visit visit) {
  const auto loader = [&](auto wide, int step) {
    return [&p, step](const float* matrix, int stride, int row) {
      const int feature = 16 * step + 4 * device::mma_lane().t;
      return load_features<decltype(wide)::value>(
          p, matrix + static_cast<std::int64_t>(row) * stride, feature, row < p.positions);
    };
  };
  if (p.access != row_access::narrow) {
#pragma unroll
    for (int step = 0; step < Tiles::features / 16; ++step) {
      visit(step, loader(std::true_type{}, step));
    }
  } else {
#pragma unroll 1
    for (int step = 0; step < Tiles::features / 16; ++step) {
      visit(step, loader(std::false_type{}, step));
    }
  }
}

/// Calls `visit(m, n, i, row, column)` for the scores of this lane, rows and columns counted from
/// the tile's first.
template <class Tiles, class Visit>
__device__ __forceinline__ void for_each_score(Visit visit) {
  const device::mma_lane lane;
#pragma unroll
  for (int m = 0; m < Tiles::m_tiles; ++m) {
#pragma unroll
    for (int n = 0; n < Tiles::n_tiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        visit(m, n, i, 16 * m + i / 2 * 8 + lane.g, 8 * n + 2 * lane.t + i % 2);
      }
    }
  }
}

/// Where rows are queries and columns keys: sets what belongs to later keys to -infinity. Scores
/// are masked and not probabilities: those the compiler would then keep twice, as numbers and as
/// operands of the tensor core.
template <class Tiles>
__device__ __forceinline__ void mask_later_keys(typename Tiles::scores& x, int first_query,
                                                int first_key) {
  if (first_key + Tiles::inner - 1 <= first_query) return;  // nothing is later
  for_each_score<Tiles>([&](int m, int n, int i, int row, int column) {
    if (first_key + column > first_query + row) x[m][n][i] = device::minus_infinity();
  });
}

/// Stores the warp's sums times `factor(m, half)` as rows of a head; its position 0 lies at
/// `matrix`.
template <class Tiles, class Factor>
__device__ __forceinline__ void store_rows(const flash_problem& p,
                                           const typename Tiles::row_sums& sums, float* matrix,
                                           int stride, int first_row, Factor factor) {
  const int g = device::mma_lane().g;
  const auto store_with = [&](auto store) {
    device::for_each_sum_chunk<Tiles::m_tiles, Tiles::features>(
        sums, [&](int m, int half, int feature, float4 x) {
          const int row = first_row + 16 * m + 8 * half + g;
          if (row >= p.positions) return;
          const float f = factor(m, half);
          store(matrix + static_cast<std::int64_t>(row) * stride, feature,
                make_float4(x.x * f, x.y * f, x.z * f, x.w * f));
        });
  };
  if (p.access == row_access::whole) {
    store_with(
        [](float* row, int feature, float4 x) { *reinterpret_cast<float4*>(row + feature) = x; });
  } else {
    store_with([&](float* row, int feature, float4 x) { store_features(p, row, feature, x); });
  }
}

/// Stores what store_rows stores with `factor`, summed over the block's rows, for all features of
/// the head. Every thread of the block must call it; `shared` may be where its tiles were.
template <class Tiles>
__device__ __forceinline__ void store_column_sums(const flash_problem& p,
                                                  const typename Tiles::row_sums& sums, float* to,
                                                  int first_row, float factor, float* shared) {
  constexpr int features = Tiles::features;
  const int g = device::mma_lane().g;
  device::mma_accumulators<1, features / 8> totals = {};
#pragma unroll
  for (int n = 0; n < features / 8; ++n) {
#pragma unroll
    for (int column = 0; column < 2; ++column) {
      float& total = totals[0][n][column];
#pragma unroll
      for (int m = 0; m < Tiles::m_tiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = first_row + 16 * m + 8 * half + g;
          if (row < p.positions) total += sums[m][n][2 * half + column];
        }
      }
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) {  // over g
        total += __shfl_xor_sync(0xffffffffu, total, distance);
      }
      total *= factor;
    }
  }
  __syncthreads();  // all are done with what shared memory held
  float* const own = shared + own_warp() * features;
  device::for_each_sum_chunk<1, features>(totals, [&](int, int half, int feature, float4 x) {
    if (half == 0 && g == 0) *reinterpret_cast<float4*>(own + feature) = x;
  });
  __syncthreads();
  for (int f = static_cast<int>(threadIdx.x); f < p.head_size; f += Tiles::threads) {
    float total = 0.0f;
#pragma unroll
    for (int warp = 0; warp < Tiles::warps; ++warp) total += shared[warp * features + f];
    to[f] = total;
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
