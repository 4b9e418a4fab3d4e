/// @file
/// Seeded random numbers that are the same on every machine.
#pragma once

#include <cstdint>

namespace gpt2_trainer {

/// One step of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
/// 2014): a bijection that turns neighbouring numbers into unrelated ones.
constexpr std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// A sequence of numbers that is a function of its seed. A user that draws at different times seeds
/// it anew from what the numbers are for, so there is no state to be saved.
class random_sequence {
 public:
  /// Seeds by any list of numbers: random_sequence(seed, epoch, shard).
  template <class... Numbers>
  explicit constexpr random_sequence(Numbers... numbers) {
    ((state_ = mixed(state_ ^ static_cast<std::uint64_t>(numbers))), ...);
  }

  constexpr std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    return mixed(state_);
  }
  /// In [0, 1).
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// In [0, limit); the bias is below limit / 2^64.
  constexpr std::uint64_t below(std::uint64_t limit) { return next() % limit; }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace gpt2_trainer
