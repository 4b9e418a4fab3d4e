/// @file
/// Long sums in parts. A sum of n terms of either sign, added one by one, is off by about 0.15 n
/// ulps of a term, because each addition rounds the whole sum so far. In parts of m terms it is off
/// by about 0.15 sqrt(n m), and adding up the parts by 0.15 n / sqrt(m).
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// Terms that are added up before the running sum takes them.
inline constexpr int terms_per_part = 256;

/// The sum of `term(i)` for i = first, first + step, ... below `count`.
template <class Term>
__device__ __forceinline__ float sum_in_parts(std::int64_t first, std::int64_t count,
                                              std::int64_t step, Term term) {
  float sum = 0.0f;
  for (std::int64_t i = first; i < count;) {
    const std::int64_t end = count - i < terms_per_part * step ? count : i + terms_per_part * step;
    float part = 0.0f;
#pragma unroll 4
    for (; i < end; i += step) part += term(i);
    sum += part;
  }
  return sum;
}

/// What the parts of many sums add up to so far. Call absorb() in a loop round the one that makes a
/// part: a compiler that has no registers left then keeps these totals in local memory.
template <int Count>
class summed_parts {
 public:
  __device__ __forceinline__ summed_parts() {
#pragma unroll
    for (int i = 0; i < Count; ++i) totals_[i] = 0.0f;
  }
  /// Adds the sums to the totals and sets them to 0.
  __device__ __forceinline__ void absorb(float (&sums)[Count]) {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      totals_[i] += sums[i];
      sums[i] = 0.0f;
    }
  }
  /// Adds all that was absorbed to the sums.
  __device__ __forceinline__ void finish(float (&sums)[Count]) const {
#pragma unroll
    for (int i = 0; i < Count; ++i) sums[i] += totals_[i];
  }

 private:
  float totals_[Count];
};

}  // namespace device
LLMC_NAMESPACE_END
