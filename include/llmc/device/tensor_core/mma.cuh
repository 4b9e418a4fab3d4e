/// @file
/// TF32 products by the tensor core instruction mma.sync.m16n8k8 (sm_80 on), one warp at a time,
/// and the two ways of feeding them with floats: rounded (`precision::tf32`), or split into two
/// parts that together hold nearly all of a float (`precision::tf32x3`).
///
/// Lane l of the warp is (g, t) = (l / 4, l % 4) and holds of a product C (16 x 8) += A (16 x 8) B
/// (8 x 8), rows first:
///
///     A: (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)
///     B: (t, g), (t + 4, g)
///     C: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// Whether this pass compiles for an architecture that has the instructions of this file. Put the
/// body of a kernel that uses them under `if constexpr (has_tf32_mma)`.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
inline constexpr bool has_tf32_mma = true;
#else
inline constexpr bool has_tf32_mma = false;
#endif

/// The tensor core reads the upper 19 bits of a float and drops the rest. Multiplying by this
/// factor first adds 0.34 to 0.69 of the last bit that stays, so that dropping the rest then
/// rounds: without bias on average, to an rms of 0.32 of that bit (0.29 would be the best, 0.58 is
/// plain dropping). It keeps numbers that are TF32 already, infinities and NaN, and costs one
/// instruction where cvt.rna.tf32 costs four on sm_90.
inline constexpr float tf32_rounding = 1.000339f;
inline constexpr float log2_tf32_rounding = 4.889907e-4f;

/// The two parts of an operand's registers as the tensor core takes them; `low` is only there for
/// tf32x3.
template <int Count>
struct tf32_fragment {
  std::uint32_t high[Count];
  std::uint32_t low[Count];
};

/// Sets register i of a fragment to x: rounded for tf32; for tf32x3 as high + low, which differ
/// from x by 2^-22 of it at most (`low` is not rounded: the tensor core drops what it cannot hold).
template <precision Arithmetic, int Count>
__device__ __forceinline__ void set_tf32(tf32_fragment<Count>& fragment, int i, float x) {
  constexpr std::uint32_t kept_bits = 0xffffe000u;
  fragment.high[i] = __float_as_uint(x * tf32_rounding);
  if constexpr (Arithmetic == precision::tf32x3) {
    fragment.low[i] = __float_as_uint(x - __uint_as_float(fragment.high[i] & kept_bits));
  }
}

/// What to multiply a sum by that the tensor core made in tf32x3, because it truncated: that takes
/// off `ulps` * 2^-23 of it on average (measured), towards 0, and so would be the error of a long
/// sum of positive numbers. Sums of numbers without low parts are often exact, and shall stay so: a
/// fragment of one operand is looked at as a sample.
__device__ __forceinline__ float truncation_factor(const tf32_fragment<4>& sample, int ulps) {
  const std::uint32_t low = sample.low[0] | sample.low[1] | sample.low[2] | sample.low[3];
  constexpr float ulp = 1.1920929e-7f;
  return low == 0 ? 1.0f : 1.0f + static_cast<float>(ulps) * ulp;
}

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
