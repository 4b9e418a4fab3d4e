/// @file
/// TF32 products by the tensor core instruction mma.sync.m16n8k8 (sm_80 on), one warp at a time.
/// precision.cuh says how floats become its operands.
///
/// Lane l of the warp is (g, t) = (l / 4, l % 4). Of a product C (16 x 8) += A (16 x 8) B (8 x 8)
/// it holds, rows first:
///
///     A: (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)
///     B: (t, g), (t + 4, g)
///     C: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// Whether this pass compiles for an architecture that has the instructions of this file. Put the
/// body of a kernel that uses them under `if constexpr (has_tf32_mma)`.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
inline constexpr bool has_tf32_mma = true;
#else
inline constexpr bool has_tf32_mma = false;
#endif

/// sum += a b. The tensor core truncates when it adds, so a long sum wants a fresh `sum` now and
/// then, added to the rest by an ordinary FP32 addition.
__device__ __forceinline__ void mma_tf32(float (&sum)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// The accumulators of a matrix of Rows x Columns tiles of 16 x 8 in one warp.
template <int Rows, int Columns>
using mma_accumulators = float[Rows][Columns][4];

template <int Rows, int Columns>
__device__ __forceinline__ void set_zero(mma_accumulators<Rows, Columns>& sums) {
#pragma unroll
  for (int m = 0; m < Rows; ++m) {
#pragma unroll
    for (int n = 0; n < Columns; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[m][n][i] = 0.0f;
    }
  }
}

/// What a lane is in the fragments above.
struct mma_lane {
  int g = static_cast<int>(threadIdx.x % 32) / 4;
  int t = static_cast<int>(threadIdx.x % 4);
};

}  // namespace device
LLMC_NAMESPACE_END
