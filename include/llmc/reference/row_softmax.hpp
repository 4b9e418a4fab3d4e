/// @file
/// What softmax, cross-entropy and the classifier share on the CPU: the statistics of a row of
/// scores and the gradient of its cross-entropy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <llmc/detail/namespace.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

struct softmax_statistics {
  double max;
  double sum;  ///< sum of exp(x - max)

  double probability(double x) const { return std::exp(x - max) / sum; }
  double loss(double target_score) const { return (max - target_score) + std::log(sum); }
};

template <class Real>
softmax_statistics softmax_row_statistics(const Real* row, std::int64_t count) {
  double max = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < count; ++i) max = (std::max)(max, static_cast<double>(row[i]));
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(row[i] - max);
  return {max, sum};
}

/// Whether a target is a column; if not, the row takes part in nothing.
inline bool has_target(classifier_shape shape, std::int32_t target) {
  return target >= 0 && target < shape.vocabulary;
}

/// How many targets are neither a column nor `ignored_target`.
inline std::uint64_t count_out_of_range(const std::int32_t* targets, classifier_shape shape) {
  return static_cast<std::uint64_t>(std::count_if(
      targets, targets + shape.rows,
      [&](std::int32_t target) { return target != ignored_target && !has_target(shape, target); }));
}

/// (softmax(logits) - onehot(target)) * dloss for one row, 0 in the padding. May write in place.
template <class Real>
void crossentropy_gradient_row(Real* dlogits, const Real* logits, softmax_statistics statistics,
                               std::int32_t target, double dloss, classifier_shape shape) {
  for (std::int64_t c = 0; c < shape.vocabulary; ++c) {
    const double p = statistics.probability(logits[c]);
    dlogits[c] = static_cast<Real>((c == target ? p - 1 : p) * dloss);
  }
  std::fill(dlogits + shape.vocabulary, dlogits + shape.padded_vocabulary, Real{0});
}

LLMC_REFERENCE_END
