/// @file
/// The extents that break kernels: 1, primes, a warp and one more or less, GPT-2's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

namespace llmc_test {

/// Whether LLMC_TEST_FEW_SIZES is in the environment, for tools such as racecheck that make every
/// launch a thousand times slower.
inline bool wants_few_sizes() {
  return std::getenv("LLMC_TEST_FEW_SIZES") != nullptr;
}

/// The sizes of a sweep: all of them or, where few are wanted, the first, the last and two between.
inline std::vector<std::int64_t> sweep(const std::vector<std::int64_t>& all) {
  if (!wants_few_sizes() || all.size() <= 4) return all;
  return {all.front(), all[all.size() / 3], all[all.size() * 2 / 3], all.back()};
}

/// Large cases: left out where few sizes are wanted.
template <class Case>
std::vector<Case> unless_few(std::vector<Case> large) {
  return wants_few_sizes() ? std::vector<Case>{} : std::move(large);
}

inline const std::vector<std::int64_t> awkward_sizes =
    sweep({1, 2, 3, 4, 5, 7, 31, 32, 33, 63, 64, 65, 127, 129, 255, 257, 767, 768, 769, 1600});

}  // namespace llmc_test
