/// @file
/// Comparison of what a layer computed with what it should have. NaN never passes.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "catch.hpp"

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

/// Fails the test unless every element of `actual` is within tolerance of `expected`.
template <class Actual, class Expected>
void check_close(const std::string& name, const std::vector<Actual>& actual,
                 const std::vector<Expected>& expected, tolerance allowed) {
  INFO(name);
  REQUIRE(actual.size() == expected.size());
  const comparison result = compare(actual, expected, allowed);
  std::ostringstream text;
  text.precision(9);
  text << result.wrong << " of " << result.count << " wrong; worst at " << result.worst << ": got "
       << result.actual << ", wanted " << result.expected << " (" << result.worst_ratio
       << " times the tolerance)";
  INFO(text.str());
  CHECK(result.wrong == 0);
}

}  // namespace llmc_test
