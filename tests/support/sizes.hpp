/// @file
/// The extents that break kernels: 1, primes, a warp and one more or less, GPT-2's own.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace llmc_test {

inline constexpr std::initializer_list<std::int64_t> awkward_sizes = {
    1, 2, 3, 4, 5, 7, 31, 32, 33, 63, 64, 65, 127, 129, 255, 257, 767, 768, 769, 1600};

}  // namespace llmc_test
