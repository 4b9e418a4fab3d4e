/// @file
/// Softmax of a row of scores and its gradient, by any group and wherever the row lives. Used by
/// softmax.cuh, causal_softmax.cuh, crossentropy.cuh, classifier.cuh and attention.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/device/row/reduce.cuh>
#include <llmc/device/row/row.cuh>

LLMC_NAMESPACE_BEGIN
namespace device {

/// The maximum of some scores and the sum of exp(score - max). Of no scores: -infinity and 0.
struct softmax_statistics {
  float max;
  float sum;
};

/// How the statistics of a row are found.
enum class softmax_sum {
  after_maximum,  ///< The maximum first, then the sum: two passes over the row.
  online,         ///< Both in one pass; the sum is rescaled when the maximum grows (Milakov and
                  ///< Gimelshein, "Online normalizer calculation for softmax", 2018).
  in_place        ///< after_maximum, and the row keeps its exponentials for what comes next.
};

/// What is subtracted inside the exponentials. Where the maximum is still -infinity, 0 will do:
/// every exponential is then 0 as it should be, and no -inf - -inf turns a later result to NaN.
__device__ __forceinline__ float softmax_shift(float max) {
  return max == minus_infinity() ? 0.0f : max;
}

/// Takes some packs of scores into the statistics; a NaN goes into the sum and so into every
/// result. The sum is rescaled even where the maximum did not grow: a branch would keep the next
/// loads waiting for it.
template <int Width, int Packs>
__device__ __forceinline__ void softmax_add(softmax_statistics& statistics,
                                            const pack<Width> (&scores)[Packs]) {
  const float old_max = statistics.max;
#pragma unroll
  for (int j = 0; j < Packs; ++j) {
#pragma unroll
    for (int i = 0; i < Width; ++i) statistics.max = fmaxf(statistics.max, scores[j][i]);
  }
  const float shift = softmax_shift(statistics.max);
  statistics.sum *= expf(old_max - shift);
#pragma unroll
  for (int j = 0; j < Packs; ++j) {
#pragma unroll
    for (int i = 0; i < Width; ++i) statistics.sum += expf(scores[j][i] - shift);
  }
}

/// The maximum of a row and the sum of exp(score - maximum); every thread of the group gets them. A
/// row of -infinity alone or with a +infinity or a NaN in it has no softmax: the results that are
/// formed from its statistics are NaN, as by the formula.
template <softmax_sum Sum, class Group, class Row>
__device__ __forceinline__ softmax_statistics softmax_row_statistics(const Group& group, Row& row) {
  if constexpr (Sum == softmax_sum::online) {
    softmax_statistics share{minus_infinity(), 0.0f};
    row.visit_batches([&](auto& packs, auto where) {
#pragma unroll
      for (auto& x : packs) {
#pragma unroll
        for (int i = 0; i < where.width; ++i) {
          if (!where.holds(i)) x[i] = minus_infinity();
        }
      }
      softmax_add(share, packs);
    });
    const float max = (group.max)(share.max);
    return {max, group.sum(share.sum * expf(share.max - softmax_shift(max)))};
  } else {
    float share = minus_infinity();
    row.visit([&](auto& x, auto where) {
#pragma unroll
      for (int i = 0; i < where.width; ++i) share = fmaxf(share, x[i]);
    });
    const float max = (group.max)(share);
    float sum = 0.0f;
    const auto add = [&](auto& x, auto where) {
#pragma unroll
      for (int i = 0; i < where.width; ++i) {
        const float exponential = expf(x[i] - max);
        sum += exponential;
        if constexpr (Sum == softmax_sum::in_place) x[i] = exponential;
      }
    };
    if constexpr (Sum == softmax_sum::in_place) {
      row.update(add);
    } else {
      row.visit(add);
    }
    return {max, group.sum(sum)};
  }
}

/// The probability of a score, given the statistics of its row, found by `Sum`.
template <softmax_sum Sum>
class softmax_probability {
 public:
  __device__ __forceinline__ explicit softmax_probability(softmax_statistics statistics)
      : max_(statistics.max), scale_(1.0f / statistics.sum) {}

  __device__ __forceinline__ float operator()(float score) const {
    return (Sum == softmax_sum::in_place ? score : expf(score - max_)) * scale_;
  }

 private:
  float max_;
  float scale_;
};

/// Writes the softmax of a row and returns the row's statistics. `out` may be the row's own array.
template <softmax_sum Sum, class Group, class Out, class Row>
__device__ __forceinline__ softmax_statistics softmax_row(const Group& group, Out out, Row& row) {
  const softmax_statistics statistics = softmax_row_statistics<Sum>(group, row);
  const softmax_probability<Sum> probability(statistics);
  row.write(out, [&](auto& x, auto where) {
#pragma unroll
    for (int i = 0; i < where.width; ++i) x[i] = where.holds(i) ? probability(x[i]) : 0.0f;
  });
  return statistics;
}

/// The gradient of softmax(scale * scores) with respect to the scores, where out is the softmax:
///
///     scale * out * (dout - sum_k dout[k] * out[k])
///
/// `out` is a row, `dout` an array or another row of the same kind; `dinp` may be dout's array.
template <class Group, class Dinp, class Dout, class Row>
__device__ __forceinline__ void softmax_gradient(const Group& group, Dinp dinp, Dout& dout,
                                                 Row& out, float scale = 1.0f) {
  float share = 0.0f;
  out.visit([&](auto& p, auto where) {
    const auto d = at(dout, where);
#pragma unroll
    for (int i = 0; i < where.width; ++i) {
      if (where.holds(i)) share += d[i] * p[i];
    }
  });
  const float dot = group.sum(share);
  out.write(dinp, [&](auto& p, auto where) {
    const auto d = at(dout, where);
#pragma unroll
    for (int i = 0; i < where.width; ++i) {
      p[i] = where.holds(i) ? scale * (p[i] * (d[i] - dot)) : 0.0f;
    }
  });
}

}  // namespace device
LLMC_NAMESPACE_END
