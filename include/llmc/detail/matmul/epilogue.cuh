/// @file
/// What the tensor core kernels of products share around the main loop: how finished sums go out,
/// and how sums that are not finite are made again.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cmath>
#include <cstdint>

#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/gelu.cuh>
#include <llmc/device/memory/pack.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Where the sums of a product go; see products::epilogue.
struct product_output {
  float* out;
  std::int64_t stride;
  const float* bias;
  float* before_gelu;
  const float* other;  ///< residual or gelu_inp
  bool other_is_gelu_inp;
  float* column_sums;
};

inline product_output output_of(const products::product& p) {
  const products::epilogue& e = p.then;
  return {p.out.data,
          p.out.stride,
          e.bias,
          e.before_gelu,
          e.gelu_inp != nullptr ? e.gelu_inp : e.residual,
          e.gelu_inp != nullptr,
          e.column_sums};
}

/// How many of n chunks to add up before long_sums takes them. Sums of m chunks and then the sum of
/// these n / m lose about m / sqrt(3 n) and sqrt(n / (3 m)) roundings of the whole, which together
/// are least for m = (n^2 / 2)^(1/3). Short sums are left alone.
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
  /// Takes the sums over, which become 0.
  __device__ __forceinline__ void absorb(float (&sums)[Count]) {
    if (used_) add_to(sums);
#pragma unroll
    for (int i = 0; i < Count; ++i) totals_[i] = sums[i];
#pragma unroll
    for (int i = 0; i < Count; ++i) sums[i] = 0.0f;
    used_ = true;
  }
  /// Adds to the sums all that was absorbed.
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

/// What happens to sums once the bias is added. Kernels branch on it once a tile, not once a sum:
/// unrolled code that jumps over what it does not need runs out of the instruction cache.
enum class epilogue_kind { plain, gelu, gelu_gradient, residual };

template <epilogue_kind Kind>
struct epilogue_kind_constant {
  static constexpr epilogue_kind value = Kind;
};
/// Calls `body` with the kind as an epilogue_kind_constant.
template <class Body>
__device__ __forceinline__ void with_epilogue_kind(const product_output& to, Body body) {
  if (to.before_gelu != nullptr) {
    body(epilogue_kind_constant<epilogue_kind::gelu>{});
  } else if (to.other == nullptr) {
    body(epilogue_kind_constant<epilogue_kind::plain>{});
  } else if (to.other_is_gelu_inp) {
    body(epilogue_kind_constant<epilogue_kind::gelu_gradient>{});
  } else {
    body(epilogue_kind_constant<epilogue_kind::residual>{});
  }
}

/// What `finish_sums` wants of the other matrix, to be loaded early; `at` is an offset into out.
template <epilogue_kind Kind, int Width>
__device__ __forceinline__ device::pack<Width> load_other(const product_output& to,
                                                          std::int64_t at) {
  if constexpr (Kind == epilogue_kind::plain || Kind == epilogue_kind::gelu) {
    return device::pack<Width>{};
  } else {
    return device::load<Width>(to.other + at);
  }
}

/// Takes consecutive sums of a row, bias included, through the rest of the epilogue and stores
/// them. Returns what column_sums are of.
template <epilogue_kind Kind, int Width>
__device__ __forceinline__ device::pack<Width> finish_sums(const product_output& to,
                                                           std::int64_t at, device::pack<Width> x,
                                                           device::pack<Width> other) {
  if constexpr (Kind == epilogue_kind::gelu) {
    device::store<Width>(to.before_gelu + at, x);
#pragma unroll
    for (int i = 0; i < Width; ++i) x[i] = device::gelu(x[i]);
  }
  if constexpr (Kind == epilogue_kind::gelu_gradient) {
#pragma unroll
    for (int i = 0; i < Width; ++i) x[i] *= device::gelu_derivative(other[i]);
  }
  if constexpr (Kind == epilogue_kind::residual) {
#pragma unroll
    for (int i = 0; i < Width; ++i) x[i] += other[i];
  }
  device::store<Width>(to.out + at, x);
  return x;
}

/// An operand by single elements: (outer, k) lies at data[outer * outer_step + k * inner_step].
struct product_operand {
  const float* data;
  std::int64_t outer_step;
  std::int64_t inner_step;
};
inline product_operand first_operand(const products::matrix<const float>& m) {
  return m.transposed ? product_operand{m.data, 1, m.stride} : product_operand{m.data, m.stride, 1};
}
inline product_operand second_operand(const products::matrix<const float>& m) {
  return m.transposed ? product_operand{m.data, m.stride, 1} : product_operand{m.data, 1, m.stride};
}

/// One sum by FP32 multiply-adds, in order. Splitting infinity into a high and a low part makes NaN
/// (infinity - infinity), and rounding can take a number near FLT_MAX to infinity; so sums that
/// come out of tf32x3 not finite are made again here, and are then what IEEE arithmetic gives. NaN
/// stays NaN, so it ends the loop.
__device__ __forceinline__ float ieee_sum(product_operand a, product_operand b, std::int64_t row,
                                          std::int64_t column, std::int64_t inner) {
  const float* x = a.data + row * a.outer_step;
  const float* y = b.data + column * b.outer_step;
  float sum = 0.0f;
#pragma unroll 1
  for (std::int64_t k = 0; k < inner && !isnan(sum); ++k) {
    sum = fmaf(*x, *y, sum);
    x += a.inner_step;
    y += b.inner_step;
  }
  return sum;
}

/// Makes the sums of a thread that are not finite again; `row_of(i)` and `column_of(i)` say where
/// sum i belongs.
template <int Count, class Problem, class RowOf, class ColumnOf>
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
    const float again = ieee_sum(p.first, p.second, row_of(which), column_of(which), p.inner);
#pragma unroll
    for (int i = 0; i < Count; ++i)
      sums[i] = i == which ? again : sums[i];  // no indexing at run time
  }
}

}  // namespace detail
LLMC_NAMESPACE_END
