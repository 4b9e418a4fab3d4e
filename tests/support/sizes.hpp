/// @file
/// The extents that break kernels: 1, primes, a warp and one more or less, GPT-2's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace llmc_test {

/// The sizes of a sweep: all of them or, with LLMC_TEST_FEW_SIZES in the environment, the first,
/// the last and two between, for tools such as racecheck that make every launch a thousand times
/// slower.
inline std::vector<std::int64_t> sweep(const std::vector<std::int64_t>& all) {
  if (std::getenv("LLMC_TEST_FEW_SIZES") == nullptr || all.size() <= 4) return all;
  return {all.front(), all[all.size() / 3], all[all.size() * 2 / 3], all.back()};
}

inline const std::vector<std::int64_t> awkward_sizes =
    sweep({1, 2, 3, 4, 5, 7, 31, 32, 33, 63, 64, 65, 127, 129, 255, 257, 767, 768, 769, 1600});

}  // namespace llmc_test
