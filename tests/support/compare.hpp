/// @file
/// Comparison of a layer's result with the right one. NaN never passes.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "registry/tolerance.hpp"

namespace llmc_test {

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
