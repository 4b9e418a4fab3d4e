/// @file
/// Comparison of sums over the rows of a matrix with the matrix that a layer computed beside them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include <llmc/types.hpp>

#include "catch.hpp"
#include "gpu.cuh"

namespace llmc_test {

/// Fails the test unless `sums` are the column sums of `matrix`, which the same layer wrote, within
/// a few roundings of the sum of the magnitudes. A sum that is not finite must not come out finite.
inline void check_column_sums(const std::string& name, const std::vector<float>& sums,
                              const std::vector<float>& matrix, llmc::accumulation mode) {
  constexpr double roundings = 1e-6;
  std::vector<double> wanted = expected_gradient(std::vector<double>(sums.size()), mode);
  std::vector<double> magnitudes(sums.size(), 1.0);
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    wanted[i % sums.size()] += matrix[i];
    magnitudes[i % sums.size()] += std::fabs(matrix[i]);
  }
  std::size_t wrong = 0;
  double worst = 0;
  for (std::size_t c = 0; c < sums.size(); ++c) {
    if (!std::isfinite(wanted[c])) {
      wrong += std::isfinite(sums[c]) ? 1 : 0;
      continue;
    }
    const double error = std::fabs(sums[c] - wanted[c]) / magnitudes[c];
    if (!(error <= roundings)) ++wrong;
    worst = std::max(worst, error);
  }
  INFO(name << ": " << wrong << " of " << sums.size() << " sums wrong, the worst by " << worst
            << " of its terms' magnitudes");
  CHECK(wrong == 0);
}

}  // namespace llmc_test
