/// @file
/// A gradient checked against central differences of the function it claims to be the gradient of.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "compare.hpp"

namespace llmc_test {

/// Checks `gradient`, the derivative of `loss()` with respect to every element of `values`.
/// `loss` reads `values` by reference and is evaluated at +-step round each element, in double: the
/// difference is then right to about step^2, 1e-8 relative with the step used here.
inline void check_finite_differences(const std::string& name, std::vector<double>& values,
                                     const std::vector<double>& gradient,
                                     const std::function<double()>& loss) {
  constexpr double step = 1e-4;
  std::vector<double> differences(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    values[i] = value + step;
    const double above = loss();
    values[i] = value - step;
    const double below = loss();
    values[i] = value;
    differences[i] = (above - below) / (2 * step);
  }
  check_close(name, gradient, differences, {1e-6, 1e-6});
}

/// The scalar whose gradient with respect to `out` is `dout`.
inline double dot(const std::vector<double>& out, const std::vector<double>& dout) {
  double sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
  return sum;
}

}  // namespace llmc_test
