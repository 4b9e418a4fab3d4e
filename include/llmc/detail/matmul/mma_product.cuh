/// @file
/// Products by mma.sync (sm_80 on), of any shape and alignment: what runs where wgmma cannot.
///
/// A block of four warps owns a tile of the result and streams tiles of 32 k of both operands
/// through a ring in shared memory. Layouts, fragments and their order are in
/// device/product_tile.cuh.
///
/// tf32x3 sums 32 terms in fresh accumulators, small products first, and adds them to the running
/// sums by ordinary FP32 additions: the tensor core truncates when it adds. tf32 leaves its sums
/// there: next to the rounding of the operands that does not show.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/matmul/epilogue.cuh>
#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/copy_async.cuh>
#include <llmc/device/mma.cuh>
#include <llmc/device/pack.cuh>
#include <llmc/device/product_tile.cuh>
#include <llmc/matmul_context.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The sizes of a kernel: the best of those tried on an H100. The ring fits the 99 KiB of shared
/// memory that a block may have on sm_86 and sm_89.
template <precision Arithmetic, bool InnerFirst1, bool InnerFirst2, int Width>
struct mma_product_tiles {
  static constexpr precision arithmetic = Arithmetic;
  static constexpr bool x3 = Arithmetic == precision::tf32x3;
  static constexpr bool inner_first_1 = InnerFirst1;
  static constexpr bool inner_first_2 = InnerFirst2;
  static constexpr int width = Width;  ///< floats that are copied and stored at a time

  static constexpr int row_groups = 2;              ///< of 32 rows, in a warp
  static constexpr int column_groups = x3 ? 1 : 2;  ///< of 32 columns, in a warp
  static constexpr int warp_rows = 2;               ///< warps below each other
  static constexpr int warp_columns = 2;
  static constexpr int rows = 32 * row_groups * warp_rows;
  static constexpr int columns = 32 * column_groups * warp_columns;
  static constexpr int threads = 32 * warp_rows * warp_columns;
  /// An architecture without these instructions gets an empty kernel that says so by its bounds.
  static constexpr int launch_bound = device::has_tf32_mma ? threads : 32;
  static constexpr int stages = x3 ? 4 : 3;

  using tile_1 = device::product_tile<InnerFirst1, rows>;
  using tile_2 = device::product_tile<InnerFirst2, columns>;
  static constexpr int stage_floats = tile_1::floats + tile_2::floats;
  static constexpr std::size_t shared_bytes = sizeof(float) * stages * stage_floats;
  static_assert(rows == products::column_sum_rows, "a tile makes one partial sum of each column");
};

struct mma_product_problem {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t inner;
  product_output to;
  product_operand first;
  product_operand second;
  std::int64_t stride_1;
  std::int64_t stride_2;
};

/// A warp's sums: [row group][half][column group][j][2e + f] is of row 4g + 2 * half + e and column
/// 8t + 4f + j of its 32 x 32.
template <class Tiles>
using mma_product_sums = float[Tiles::row_groups][2][Tiles::column_groups][4][4];

/// Where a block and a warp are in the result.
template <class Tiles>
struct mma_product_place {
  std::int64_t row_tile;
  std::int64_t column_tile;
  int warp_row = static_cast<int>(threadIdx.x) / 32 % Tiles::warp_rows;
  int warp_column = static_cast<int>(threadIdx.x) / 32 / Tiles::warp_rows;
  device::mma_lane lane;

  /// Tiles are counted down groups of rows, so that blocks that run at a time share operands.
  __device__ __forceinline__ mma_product_place(const mma_product_problem& p, std::int64_t tile) {
    constexpr std::int64_t group_rows = 8;
    const std::int64_t row_tiles = (p.rows + Tiles::rows - 1) / Tiles::rows;
    const std::int64_t column_tiles = (p.columns + Tiles::columns - 1) / Tiles::columns;
    const std::int64_t group = tile / (group_rows * column_tiles);
    const std::int64_t in_group = tile % (group_rows * column_tiles);
    const std::int64_t first = group * group_rows;
    const std::int64_t rows = row_tiles - first < group_rows ? row_tiles - first : group_rows;
    row_tile = first + in_group % rows;
    column_tile = in_group / rows;
  }

  /// In the tile, of the warp's row or column group.
  __device__ __forceinline__ int group_row(int m) const {
    return (warp_row * Tiles::row_groups + m) * 32;
  }
  __device__ __forceinline__ int group_column(int n) const {
    return (warp_column * Tiles::column_groups + n) * 32;
  }
  /// In the result.
  __device__ __forceinline__ std::int64_t row(int m, int half, int e) const {
    return row_tile * Tiles::rows + group_row(m) + 4 * lane.g + 2 * half + e;
  }
  __device__ __forceinline__ std::int64_t column(int n, int f) const {
    return column_tile * Tiles::columns + group_column(n) + 8 * lane.t + 4 * f;
  }
};

// ---- the sums ----

/// The A fragments of 32 rows and 16 k: [half][step].
template <precision Arithmetic>
__device__ __forceinline__ void split_rows(device::tf32_fragment<4> (&a)[2][2],
                                           const float (&x)[4][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        device::set_tf32<Arithmetic>(a[half][step], i, x[2 * half + i % 2][2 * step + i / 2]);
      }
    }
  }
}

/// The B fragments of 32 columns and 16 k: [j][step].
template <precision Arithmetic>
__device__ __forceinline__ void split_columns(device::tf32_fragment<2> (&b)[4][2],
                                              const float (&x)[4][4]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
#pragma unroll
      for (int i = 0; i < 2; ++i) device::set_tf32<Arithmetic>(b[j][step], i, x[j][2 * step + i]);
    }
  }
}

/// sums += the products of one 32-k tile, in tf32.
template <class Tiles>
__device__ __forceinline__ void multiply_tile(mma_product_sums<Tiles>& sums, const float* tile_1,
                                              const float* tile_2,
                                              const mma_product_place<Tiles>& at) {
#pragma unroll
  for (int k = 0; k < 32; k += 16) {
    device::tf32_fragment<2> b[Tiles::column_groups][4][2];
#pragma unroll
    for (int n = 0; n < Tiles::column_groups; ++n) {
      float x[4][4];
      device::load_fragment<Tiles::inner_first_2, Tiles::columns>(x, tile_2, at.group_column(n), k,
                                                                  at.lane);
      split_columns<precision::tf32>(b[n], x);
    }
#pragma unroll
    for (int m = 0; m < Tiles::row_groups; ++m) {
      float x[4][4];
      device::tf32_fragment<4> a[2][2];
      device::load_fragment<Tiles::inner_first_1, Tiles::rows>(x, tile_1, at.group_row(m), k,
                                                               at.lane);
      split_rows<precision::tf32>(a, x);
#pragma unroll
      for (int step = 0; step < 2; ++step) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int n = 0; n < Tiles::column_groups; ++n) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              device::mma_tf32(sums[m][half][n][j], a[half][step].high, b[n][j][step].high);
            }
          }
        }
      }
    }
  }
}

/// The same in tf32x3.
template <class Tiles>
__device__ __forceinline__ void multiply_tile_x3(mma_product_sums<Tiles>& sums, const float* tile_1,
                                                 const float* tile_2,
                                                 const mma_product_place<Tiles>& at) {
  constexpr precision x3 = precision::tf32x3;
#pragma unroll
  for (int n = 0; n < Tiles::column_groups; ++n) {
    device::tf32_fragment<2> b[2][4][2];
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      float x[4][4];
      device::load_fragment<Tiles::inner_first_2, Tiles::columns>(x, tile_2, at.group_column(n),
                                                                  16 * c, at.lane);
      split_columns<x3>(b[c], x);
    }
#pragma unroll
    for (int m = 0; m < Tiles::row_groups; ++m) {
      float fresh[2][4][4] = {};
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float x[4][4];
        device::tf32_fragment<4> a[2][2];
        device::load_fragment<Tiles::inner_first_1, Tiles::rows>(x, tile_1, at.group_row(m), 16 * c,
                                                                 at.lane);
        split_rows<x3>(a, x);
        const auto for_each = [&](auto multiply) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int j = 0; j < 4; ++j) multiply(half, j);
          }
        };
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          for_each([&](int half, int j) {
            device::mma_tf32(fresh[half][j], a[half][step].low, b[c][j][step].high);
          });
          for_each([&](int half, int j) {
            device::mma_tf32(fresh[half][j], a[half][step].high, b[c][j][step].low);
          });
          for_each([&](int half, int j) {
            device::mma_tf32(fresh[half][j], a[half][step].high, b[c][j][step].high);
          });
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[m][half][n][j][i] += fresh[half][j][i];
        }
      }
    }
  }
}

/// All k of a tile of the result.
template <class Tiles>
__device__ __forceinline__ void sum_products(mma_product_sums<Tiles>& sums,
                                             const mma_product_problem& p,
                                             const mma_product_place<Tiles>& at, float* shared) {
  device::product_tile_loader<Tiles::inner_first_1, Tiles::rows, Tiles::threads, Tiles::width>
      load_1(p.first.data, p.stride_1, at.row_tile * Tiles::rows, p.rows, p.inner);
  device::product_tile_loader<Tiles::inner_first_2, Tiles::columns, Tiles::threads, Tiles::width>
      load_2(p.second.data, p.stride_2, at.column_tile * Tiles::columns, p.columns, p.inner);
  const std::int64_t steps = (p.inner + 31) / 32;
  int loading = 0;
  const auto load_next = [&](std::int64_t step) {
    if (step < steps) {
      float* const stage = shared + loading * Tiles::stage_floats;
      load_1.load_next(stage);
      load_2.load_next(stage + Tiles::tile_1::floats);
    }
    device::commit_copies();  // also an empty group, so that one can count them
    loading = loading + 1 == Tiles::stages ? 0 : loading + 1;
  };
#pragma unroll
  for (int i = 0; i < Tiles::stages - 1; ++i) load_next(i);
  int reading = 0;
#pragma unroll 1
  for (std::int64_t step = 0; step < steps; ++step) {
    device::wait_for_copies<Tiles::stages - 2>();
    __syncthreads();  // this stage is there for all, and all are done with the one before
    load_next(step + Tiles::stages - 1);
    const float* const stage = shared + reading * Tiles::stage_floats;
    if constexpr (Tiles::x3) {
      multiply_tile_x3<Tiles>(sums, stage, stage + Tiles::tile_1::floats, at);
    } else {
      multiply_tile<Tiles>(sums, stage, stage + Tiles::tile_1::floats, at);
    }
    reading = reading + 1 == Tiles::stages ? 0 : reading + 1;
  }
}

// ---- the epilogue ----

/// Adds a thread's sums of columns to those of the whole tile, in `shared`, and stores them. All
/// threads of the block.
template <class Tiles>
__device__ __forceinline__ void store_column_sums(const mma_product_problem& p,
                                                  const mma_product_place<Tiles>& at,
                                                  float (&sums)[Tiles::column_groups][8],
                                                  float* shared) {
  __syncthreads();  // nobody reads tiles any more
#pragma unroll
  for (int n = 0; n < Tiles::column_groups; ++n) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float& sum = sums[n][i];
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) {  // over g
        sum += __shfl_xor_sync(0xffffffffu, sum, distance);
      }
      if (at.lane.g == 0) {
        shared[at.warp_row * Tiles::columns + at.group_column(n) + 8 * at.lane.t + i] = sum;
      }
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < Tiles::columns; i += Tiles::threads) {
    const std::int64_t column = at.column_tile * Tiles::columns + i;
    float total = 0.0f;
#pragma unroll
    for (int warp = 0; warp < Tiles::warp_rows; ++warp) total += shared[warp * Tiles::columns + i];
    if (column < p.columns) p.to.column_sums[at.row_tile * p.columns + column] = total;
  }
}

/// Stores a thread's sums, 8 consecutive columns at a time in packs of Tiles::width. What is read
/// of another matrix is loaded for 4 rows before anything is stored, see store_tile of wgmma.
template <epilogue_kind Kind, class Tiles>
__device__ __forceinline__ void store_products(const mma_product_problem& p,
                                               const mma_product_sums<Tiles>& sums,
                                               const mma_product_place<Tiles>& at, float* shared) {
  constexpr int width = Tiles::width;
  constexpr int packs = 8 / width;
  using pack = device::pack<width>;
  float column_sums[Tiles::column_groups][8] = {};
#pragma unroll
  for (int n = 0; n < Tiles::column_groups; ++n) {
    const std::int64_t first_column = at.column(n, 0);
    pack bias[packs] = {};
#pragma unroll
    for (int q = 0; q < packs; ++q) {
      const std::int64_t column = first_column + q * width;
      if (p.to.bias != nullptr && column < p.columns) {
        bias[q] = device::load<width>(p.to.bias + column);
      }
    }
#pragma unroll
    for (int m = 0; m < Tiles::row_groups; ++m) {
      const auto for_each = [&](auto body) {  // half, e, q inside the matrix
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const std::int64_t row = at.row(m, half, e);
            if (row >= p.rows) continue;
#pragma unroll
            for (int q = 0; q < packs; ++q) {
              const std::int64_t column = first_column + q * width;
              if (column < p.columns) body(half, e, q, row * p.to.stride + column);
            }
          }
        }
      };
      pack other[2][2][packs] = {};
      for_each([&](int half, int e, int q, std::int64_t to) {
        other[half][e][q] = load_other<Kind, width>(p.to, to);
      });
      for_each([&](int half, int e, int q, std::int64_t to) {
        pack x;
#pragma unroll
        for (int i = 0; i < width; ++i) {
          const int column = q * width + i;
          x[i] = sums[m][half][n][column % 4][2 * e + column / 4] + bias[q][i];
        }
        x = finish_sums<Kind, width>(p.to, to, x, other[half][e][q]);
#pragma unroll
        for (int i = 0; i < width; ++i) column_sums[n][q * width + i] += x[i];
      });
    }
  }
  if (p.to.column_sums != nullptr) store_column_sums(p, at, column_sums, shared);
}

template <class Tiles>
__global__ void __launch_bounds__(Tiles::launch_bound, 2)
    mma_product_kernel(const __grid_constant__ mma_product_problem p, std::int64_t tiles) {
  if constexpr (device::has_tf32_mma) {
    extern __shared__ __align__(128) float product_shared[];
    for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      const mma_product_place<Tiles> at(p, tile);
      mma_product_sums<Tiles> sums = {};
      sum_products<Tiles>(sums, p, at, product_shared);
      if constexpr (Tiles::x3) {
        auto& all = reinterpret_cast<float(&)[64]>(sums);  // [m][half][n = 0][j][2e + f]
        repair_sums(
            all, p, [&](int i) { return at.row(i / 32, i / 16 % 2, i / 2 % 2); },
            [&](int i) { return at.column(0, i % 2) + i / 4 % 4; });
      }
      with_epilogue_kind(p.to, [&](auto kind) {
        store_products<decltype(kind)::value, Tiles>(p, sums, at, product_shared);
      });
      __syncthreads();  // before the next tile's copies
    }
  }
}

// ---- launching ----

/// Whether an operand's lines can be copied 16 bytes at a time.
inline bool is_16_byte_operand(const products::matrix<const float>& m, std::int64_t line) {
  return line % 4 == 0 && is_16_byte_accessible(m.stride, m.data);
}

/// Calls `body` with the layout as two types, like std::true_type: whether k is innermost.
template <class Body>
void with_layout(const products::product& p, Body body) {
  if (p.inp1.transposed) {
    body(std::false_type{}, std::false_type{});
  } else if (p.inp2.transposed) {
    body(std::true_type{}, std::true_type{});
  } else {
    body(std::true_type{}, std::false_type{});
  }
}

/// Calls `body` with the tiles that take a product, as a null pointer to them.
template <precision Arithmetic, class Body>
void with_mma_tiles(const products::product& p, Body body) {
  const products::epilogue& e = p.then;
  const bool wide = is_16_byte_operand(p.inp1, p.inp1.transposed ? p.rows : p.inner) &&
                    is_16_byte_operand(p.inp2, p.inp2.transposed ? p.inner : p.columns) &&
                    p.columns % 4 == 0 &&
                    is_16_byte_accessible(p.out.stride, p.out.data, e.bias, e.before_gelu,
                                          e.gelu_inp, e.residual);
  with_layout(p, [&](auto inner_first_1, auto inner_first_2) {
    with_access_width(wide, [&](auto width) {
      body(static_cast<mma_product_tiles<Arithmetic, decltype(inner_first_1)::value,
                                         decltype(inner_first_2)::value, width()>*>(nullptr));
    });
  });
}

/// Whether there is code for this device.
template <precision Arithmetic>
bool mma_product_is_there(const products::product& p, matmul_context& context) {
  bool found = false;
  with_mma_tiles<Arithmetic>(p, [&](auto* which) {
    using tiles = std::remove_pointer_t<decltype(which)>;
    found = context.has_kernel(reinterpret_cast<const void*>(&mma_product_kernel<tiles>),
                               tiles::threads);
  });
  return found;
}

/// Computes a product (batch 1, factor 1, not both operands transposed).
template <precision Arithmetic>
void multiply_by_mma(const char* function, const products::product& p, matmul_context&,
                     cudaStream_t stream) {
  with_mma_tiles<Arithmetic>(p, [&](auto* which) {
    using tiles = std::remove_pointer_t<decltype(which)>;
    const std::int64_t blocks = ceil_div(p.rows, tiles::rows) * ceil_div(p.columns, tiles::columns);
    const mma_product_problem problem{p.rows,
                                      p.columns,
                                      p.inner,
                                      output_of(p),
                                      first_operand(p.inp1),
                                      second_operand(p.inp2),
                                      p.inp1.stride,
                                      p.inp2.stride};
    launch({function, blocks, tiles::threads, tiles::shared_bytes, stream},
           mma_product_kernel<tiles>, problem, blocks);
  });
}

}  // namespace detail
LLMC_NAMESPACE_END
