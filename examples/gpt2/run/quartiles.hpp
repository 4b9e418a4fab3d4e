/// @file
/// How a sample of times is spread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace gpt2_trainer {

/// A sample at five of its ranks; between two samples in a straight line.
struct quartiles {
  double minimum;
  double lower;
  double median;
  double upper;
  double maximum;
};

/// Of at least one number.
inline quartiles quartiles_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double part) {
    const double rank = part * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(rank);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (rank - std::floor(rank)) * (values[above] - values[below]);
  };
  return {values.front(), at(0.25), at(0.5), at(0.75), values.back()};
}

}  // namespace gpt2_trainer
