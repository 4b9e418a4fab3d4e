/// @file
/// What keeps sums on tensor cores as exact as FP32's own: long sums as sums of sums, and sums that
/// are not finite computed again.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cmath>
#include <cstdint>

#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/operand.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// How many of n chunks to add up before long_sums takes them. Sums of m chunks lose about m /
/// sqrt(3 n) roundings of the whole, and the sum of these n / m sums loses about sqrt(n / (3 m)).
/// Together the two are least for m = (n^2 / 2)^(1/3). Short sums are left alone.
inline int chunks_per_sum(std::int64_t chunks) {
  constexpr std::int64_t short_sum = 32;
  constexpr double fewest = 16;
  if (chunks <= short_sum) return static_cast<int>(short_sum) + 1;
  const double n = static_cast<double>(chunks);
  const double best = std::cbrt(n * n / 2);
  return static_cast<int>(best < fewest ? fewest : best);
}

/// Sums of sums. They are touched so rarely that local memory is the place for them: registers are
/// full, and `volatile` keeps the compiler from trying.
template <int Count>
class long_sums {
 public:
  /// Adds the sums to the totals and sets them to 0.
  __device__ __forceinline__ void absorb(float (&sums)[Count]) {
    if (used_) add_to(sums);
#pragma unroll
    for (int i = 0; i < Count; ++i) totals_[i] = sums[i];
#pragma unroll
    for (int i = 0; i < Count; ++i) sums[i] = 0.0f;
    used_ = true;
  }
  /// Adds all that was absorbed to the sums.
  __device__ __forceinline__ void finish(float (&sums)[Count]) const {
    if (used_) add_to(sums);
  }

 private:
  __device__ __forceinline__ void add_to(float (&sums)[Count]) const {
#pragma unroll
    for (int i = 0; i < Count; ++i) sums[i] += totals_[i];
  }

  volatile float totals_[Count];
  bool used_ = false;
};

/// One sum by FP32 multiply-adds, in order. Splitting infinity into a high and a low part makes NaN
/// (infinity - infinity), and rounding can take a number near FLT_MAX to infinity; so sums that are
/// not finite after tf32x3 are computed again here, and are then what IEEE arithmetic gives. NaN
/// stays NaN, so it ends the loop.
template <products::layout First, products::layout Second>
__device__ __forceinline__ float ieee_sum(const products::operand& a, const products::operand& b,
                                          std::int64_t row, std::int64_t column,
                                          std::int64_t inner) {
  float sum = 0.0f;
#pragma unroll 1
  for (std::int64_t k = 0; k < inner && !isnan(sum); ++k) {
    sum = fmaf(*device::element<First>(a, row, k), *device::element<Second>(b, column, k), sum);
  }
  return sum;
}

/// Computes again those sums of a thread that are not finite; `row_of(i)` and `column_of(i)` say
/// where sum i belongs.
template <products::layout First, products::layout Second, int Count, class Problem, class RowOf,
          class ColumnOf>
__device__ __forceinline__ void repair_sums(float (&sums)[Count], const Problem& p, RowOf row_of,
                                            ColumnOf column_of) {
  static_assert(Count <= 64, "one bit a sum");
  float probe = 0.0f;
#pragma unroll
  for (int i = 0; i < Count; ++i) probe = fmaf(sums[i], 0.0f, probe);
  if (probe == 0.0f) return;  // else NaN: a sum is infinite or NaN
  std::uint64_t broken = 0;
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    const bool inside = row_of(i) < p.rows && column_of(i) < p.columns;
    if (inside && !isfinite(sums[i])) broken |= std::uint64_t{1} << i;
  }
#pragma unroll 1
  for (; broken != 0; broken &= broken - 1) {
    const int which = __ffsll(static_cast<long long>(broken)) - 1;
    const float again =
        ieee_sum<First, Second>(p.first, p.second, row_of(which), column_of(which), p.inner);
#pragma unroll
    for (int i = 0; i < Count; ++i)
      sums[i] = i == which ? again : sums[i];  // no indexing at run time
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
