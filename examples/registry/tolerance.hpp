/// @file
/// How far a layer's result may be from the right one, and how far it is. NaN is never close to
/// anything.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace llmc_test {

/// |actual - expected| may be at most absolute + relative * |expected|.
struct tolerance {
  double absolute;
  double relative;
};

/// The tolerance of an FP32 sum over `terms` products of magnitude about `scale`.
///
/// The terms have either sign, so partial sums grow like sqrt(terms) * scale. They are added by a
/// tree of at least 32 branches, so few of the roundings are of the whole sum, and a few eps of it
/// cover them. A few more, of single terms, come from what surrounds the sum.
inline tolerance sum_tolerance(std::int64_t terms, double scale = 1.0) {
  constexpr double eps = std::numeric_limits<float>::epsilon();
  const double n = static_cast<double>(terms < 1 ? 1 : terms);
  return {4 * eps * scale * (4 + std::sqrt(n)), 8 * eps};
}

/// The tolerance of an element-wise formula of a few FP32 operations on values about `scale`.
inline tolerance elementwise_tolerance(double scale = 1.0) {
  return sum_tolerance(1, scale);
}

/// The tolerance of a probability, or of its multiples. It is relative, however small the
/// probability: the sum over `count` exponentials is good to sqrt(count) ulps, and rounding the
/// difference between a score and the maximum, at most `range`, costs range ulps of the result.
inline tolerance probability_tolerance(std::int64_t count, double range) {
  constexpr double eps = std::numeric_limits<float>::epsilon();
  return {std::numeric_limits<float>::min(),
          eps * (8 + range + std::sqrt(static_cast<double>(count)))};
}

/// Which element differs most, in units of what was allowed, and how many differ too much.
struct comparison {
  std::size_t count = 0;  ///< elements compared
  std::size_t wrong = 0;  ///< elements out of tolerance, NaN included
  std::size_t worst = 0;  ///< index of the worst element
  double worst_ratio = 0;
  double actual = 0;
  double expected = 0;
};

template <class Actual, class Expected>
comparison compare(const std::vector<Actual>& actual, const std::vector<Expected>& expected,
                   tolerance allowed) {
  comparison result;
  result.count = expected.size();
  for (std::size_t i = 0; i < expected.size() && i < actual.size(); ++i) {
    const double a = static_cast<double>(actual[i]);
    const double e = static_cast<double>(expected[i]);
    double ratio = 0;
    if (a != e) {  // equal infinities differ by nothing
      ratio = std::fabs(a - e) / (allowed.absolute + allowed.relative * std::fabs(e));
    }
    if (!(ratio <= 1)) ++result.wrong;
    if (std::isnan(ratio)) ratio = std::numeric_limits<double>::infinity();
    if (ratio > result.worst_ratio || i == 0) {
      result.worst = i;
      result.worst_ratio = ratio;
      result.actual = a;
      result.expected = e;
    }
  }
  return result;
}

}  // namespace llmc_test
