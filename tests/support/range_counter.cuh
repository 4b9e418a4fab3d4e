/// @file
/// The counter of tokens or targets out of range, as a launcher under test sees it.
#pragma once

#include <cstdint>
#include <vector>

#include "gpu.cuh"

namespace llmc_test {

/// The counter that a launcher adds to, and what it must hold after `run` has called it three
/// times.
class range_counter {
 public:
  operator std::uint64_t*() const { return memory_; }
  void check(std::uint64_t expected_each_time) const {
    CHECK(memory_.values()[0] == before + 3 * expected_each_time);
    CHECK(memory_.guards_intact());
  }

 private:
  static constexpr std::uint64_t before = 5;
  buffer<std::uint64_t> memory_{std::vector<std::uint64_t>{before}};
};

}  // namespace llmc_test
