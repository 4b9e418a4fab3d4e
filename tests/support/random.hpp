/// @file
/// Seeded inputs, the same on every machine: the standard fixes the engine but not the
/// distributions, so those are written here.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace llmc_test {

/// Normal numbers with the given standard deviation and mean, by Box and Muller.
inline std::vector<float> random_normal(std::int64_t count, std::uint32_t seed,
                                        double deviation = 1.0, double mean = 0.0) {
  std::mt19937 engine(seed);
  const auto uniform = [&] { return (static_cast<double>(engine()) + 0.5) / 4294967296.0; };
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    value = static_cast<float>(mean + deviation * radius * std::cos(6.283185307179586 * uniform()));
  }
  return values;
}

/// Integers in [0, limit).
inline std::vector<std::int32_t> random_integers(std::int64_t count, std::int64_t limit,
                                                 std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (std::int32_t& value : values) {
    value = static_cast<std::int32_t>(engine() % static_cast<std::uint64_t>(limit));
  }
  return values;
}

/// The same numbers in double, for the reference.
inline std::vector<double> widen(const std::vector<float>& values) {
  return std::vector<double>(values.begin(), values.end());
}

/// Numbers of the reference rounded to float, as inputs of a launcher.
inline std::vector<float> narrow(const std::vector<double>& values) {
  return std::vector<float>(values.begin(), values.end());
}

}  // namespace llmc_test
