/// @file
/// Runs of flash attention, and how exact they must be.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "attention_case.cuh"

namespace llmc_test {

using llmc::attention_shape;
using llmc::precision;

/// Both directions by the variant `flash`. Compiled once, in attention_flash.cu: these kernels take
/// long.
attention_result run_flash(const attention_case& c, precision arithmetic, int misalignment = 0);

inline std::string describe(const attention_case& c, precision arithmetic, int misalignment = 0) {
  return "B " + std::to_string(c.shape.batch) + ", T " + std::to_string(c.shape.sequence) +
         ", NH " + std::to_string(c.shape.heads) + ", HS " + std::to_string(c.shape.head_size) +
         ", " + to_string(arithmetic) + ", misalignment " + std::to_string(misalignment);
}

/// Relative errors that normal numbers may give, as Euclidean norms: rounding to TF32 costs 3e-4 a
/// factor; the others are a few roundings of FP32 in each term, which mostly cancel.
inline double allowed_error(precision arithmetic) {
  return llmc::facts_of(arithmetic).is_exact() ? 1.5e-6 : 1e-3;
}

/// ||actual - expected|| / ||scale||
inline double relative_error(const std::vector<float>& actual, const std::vector<double>& expected,
                             const std::vector<double>& scale) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
  }
  for (const double x : scale) size += x * x;
  return std::sqrt(difference / size);
}

inline void check_error(const std::string& name, const std::vector<float>& actual,
                        const std::vector<double>& expected, double allowed) {
  REQUIRE(actual.size() == expected.size());
  const double error = relative_error(actual, expected, expected);
  INFO(name << ": relative error " << error << ", allowed " << allowed);
  CHECK(error <= allowed);
}

/// One of dq, dk and dv.
template <class Real>
std::vector<Real> part_of(const std::vector<Real>& dqkv, attention_shape shape, int which) {
  const auto channels = static_cast<std::size_t>(shape.heads * shape.head_size);
  std::vector<Real> part;
  for (std::size_t i = 0; i < dqkv.size(); ++i) {
    if (i / channels % 3 == static_cast<std::size_t>(which)) part.push_back(dqkv[i]);
  }
  return part;
}

/// Errors of a few numbers do not average out, and at T = 1 only rounding is left of dq and dk.
inline bool few_numbers(attention_shape shape) {
  return shape.sequence < 31 || shape.head_size < 33;
}

/// All gradients together, since those of a few positions nearly vanish and their errors do not.
inline void check_result(const attention_case& c, const attention_result& result, double allowed) {
  check_error("out", result.out, c.out, allowed);
  check_close("lse", result.lse, c.lse, {4 * allowed * largest_of(c.lse), 0});
  check_error("dqkv", result.dqkv, c.dqkv, allowed);
}

inline void check_flash(const attention_case& c, precision arithmetic, int misalignment = 0,
                        double factor = 1) {
  INFO(describe(c, arithmetic, misalignment));
  check_result(c, run_flash(c, arithmetic, misalignment), factor * allowed_error(arithmetic));
}

}  // namespace llmc_test
