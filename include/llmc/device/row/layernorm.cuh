/// @file
/// Layer normalisation of a row, forward and backward, by any group and wherever the row lives; see
/// llmc/layernorm.cuh for the formulas.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/row.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

struct row_statistics {
  float mean;
  float rstd;
};

/// Mean and reciprocal standard deviation of a row; every thread of the group gets them. The
/// deviations are taken from the mean itself, so no digits are lost where the mean is large.
/// `arriving` is visited first, `row` afterwards. They differ where the first visit also puts the
/// numbers where `row` finds them; else both are the same row.
template <class Group, class Arriving, class Row, class Count>
__device__ __forceinline__ row_statistics layernorm_statistics(const Group& group,
                                                               Arriving& arriving, Row& row,
                                                               Count channels, float epsilon) {
  float sum = 0.0f;
  arriving.visit([&](auto& x, auto where) {
#pragma unroll
    for (int i = 0; i < where.width; ++i) sum += x[i];
  });
  const float mean = group.sum(sum) / static_cast<float>(channels);
  float squares = 0.0f;
  row.visit([&](auto& x, auto where) {
#pragma unroll
    for (int i = 0; i < where.width; ++i) squares += (x[i] - mean) * (x[i] - mean);
  });
  return {mean, 1.0f / sqrtf(group.sum(squares) / static_cast<float>(channels) + epsilon)};
}

template <class Group, class Row, class Count>
__device__ __forceinline__ row_statistics layernorm_statistics(const Group& group, Row& row,
                                                               Count channels, float epsilon) {
  return layernorm_statistics(group, row, row, channels, epsilon);
}

/// Writes a normalised row. `weight` is an array or a row.
template <class Row, class Weight>
__device__ __forceinline__ void layernorm_write(float* out, Row& row, const Weight& weight,
                                                const float* bias, row_statistics statistics) {
  row.write(out, [&](auto& x, auto where) {
    const auto w = at(weight, where);
    const auto b = at(bias, where);
#pragma unroll
    for (int i = 0; i < where.width; ++i) {
      x[i] = (x[i] - statistics.mean) * statistics.rstd * w[i] + b[i];
    }
  });
}

/// What is added at a place: of an array, which may be null and then means 0, or of a row. Nothing
/// is loaded from an array where the place is not `inside` its row.
template <class Place>
__device__ __forceinline__ pack<Place::width> addend_at(const float* array, Place where,
                                                        bool inside) {
  pack<Place::width> x = {};
  if (array != nullptr && inside) x = at(array, where);
  return x;
}
template <class Row, class Place>
__device__ __forceinline__ pack<Place::width> addend_at(const Row& row, Place where, bool) {
  return row.at(where);
}

/// For layernorm_gradient where the terms of the parameters' gradients are not wanted.
struct no_terms {
  template <class Place, class Pack>
  __device__ __forceinline__ void operator()(Place, const Pack&, const Pack&) const {}
};

/// The gradient of a row with respect to its input:
///
///     norm = (inp - mean) * rstd,  dnorm = dout * weight
///     dinp = rstd * (dnorm - sum(dnorm) / C - norm * sum(dnorm * norm) / C) + addend
///
/// Rows that keep changes are used up: `dout` becomes dinp and `inp` becomes norm. `addend` is an
/// array, a row, or null, which means 0. `addend` and dout may alias `dinp`. `add_terms(where,
/// dout, norm)` gets every pack: the gradient of bias is the sum of dout, that of weight the sum of
/// dout * norm.
template <class Group, class Addend, class Dout, class Inp, class Count, class AddTerms>
__device__ __forceinline__ void layernorm_gradient(const Group& group, float* dinp,
                                                   const Addend& addend, Dout& dout, Inp& inp,
                                                   const float* weight, Count channels,
                                                   row_statistics statistics, AddTerms add_terms) {
  float dnorm_sum = 0.0f;
  float dnorm_norm_sum = 0.0f;
  // Turns inp into norm and dout into dnorm. One pack after the other: weights of more packs at
  // once would not fit in the registers.
  const auto begin = [&](auto& d, auto& x, auto where, auto add) {
    const auto w = at(weight, where);
#pragma unroll
    for (int i = 0; i < where.width; ++i) x[i] = (x[i] - statistics.mean) * statistics.rstd;
    add(where, d, x);
#pragma unroll
    for (int i = 0; i < where.width; ++i) {
      d[i] *= w[i];
      dnorm_sum += d[i];
      dnorm_norm_sum += d[i] * x[i];
    }
  };
  dout.update([&](auto& d, auto where) {
    auto&& x = at(inp, where);
    begin(d, x, where, add_terms);
  });
  const float scale = statistics.rstd / static_cast<float>(channels);
  const float shift = group.sum(dnorm_sum) * scale;
  const float slope = group.sum(dnorm_norm_sum) * scale;
  const auto finish = [&](auto& d, auto where, bool inside) {
    auto&& x = at(inp, where);
    if constexpr (!Dout::keeps) begin(d, x, where, no_terms{});
    const auto rest = addend_at(addend, where, inside);
#pragma unroll
    for (int i = 0; i < where.width; ++i) {
      d[i] = (rest[i] + d[i] * statistics.rstd) - (shift + x[i] * slope);
    }
  };
  if constexpr (Dout::keeps) {
    dout.write_all(dinp, finish);
  } else {
    dout.write(dinp, [&](auto& d, auto where) { finish(d, where, true); });
  }
}

}  // namespace device
LLMC_NAMESPACE_END
