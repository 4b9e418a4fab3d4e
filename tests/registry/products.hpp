/// @file
/// How exact sums of products of normal numbers are.
#pragma once

#include <cmath>
#include <cstdint>

#include "problem.hpp"

namespace llmc_registry {

inline tolerance product_tolerance(std::int64_t terms) {
  return llmc_test::sum_tolerance(terms, 4);
}

/// In TF32 each factor has 10 bits of mantissa, and the errors add up like a random walk.
inline tolerance tf32_product_tolerance(std::int64_t terms) {
  const double ulp = 1.0 / 1024;
  return {4 * ulp * (2 + std::sqrt(static_cast<double>(terms))), ulp};
}

}  // namespace llmc_registry
