/// @file
/// Matrices in halves made by the CPU, and numbers that are hard to split.
#pragma once

#include <llmc/reference/split_matrix.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "random.hpp"

namespace llmc_test {

/// A matrix in halves in the CPU's memory.
class host_halves {
 public:
  host_halves(llmc::row_shape shape, const std::vector<float>& values)
      : words_(llmc::split_matrix_bytes(shape) / sizeof(std::uint32_t)), shape_(shape) {
    kept_whole_ = llmc::reference::split(matrix(), values.data());
  }
  const std::vector<std::uint32_t>& words() const { return words_; }
  /// How many blocks keep their FP32 bits.
  std::int64_t kept_whole() const { return kept_whole_; }
  /// What it holds.
  std::vector<double> joined() {
    std::vector<double> values(static_cast<std::size_t>(shape_.rows * shape_.channels));
    llmc::reference::join(values.data(), matrix());
    return values;
  }

 private:
  llmc::split_matrix matrix() { return {words_.data(), shape_}; }

  std::vector<std::uint32_t> words_;
  llmc::row_shape shape_;
  std::int64_t kept_whole_ = 0;
};

struct split_data {
  std::string name;
  std::vector<float> values;  ///< rows of channels
};

/// Numbers of all kinds.
inline std::vector<split_data> split_data_sets(std::int64_t rows, std::int64_t channels) {
  const std::vector<float> normal = random_normal(rows * channels, 1);
  std::vector<split_data> sets;
  const auto add = [&](const char* name, auto value) {
    std::vector<float> values(normal.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      values[i] = static_cast<float>(value(at / channels, at % channels, normal[i]));
    }
    sets.push_back({name, values});
  };
  using limits = std::numeric_limits<float>;
  add("normal", [](auto, auto, float x) { return x; });
  add("integers", [](auto, auto, float x) { return std::nearbyint(8 * x); });
  add("zeros", [](auto, auto, float) { return 0.0f; });
  add("negative zeros and ones", [](auto r, auto, float) { return r % 2 == 0 ? -0.0f : 1.0f; });
  add("rows spread",
      [](auto r, auto, float x) { return std::ldexp(x, static_cast<int>(r * 37 % 81) - 40); });
  add("columns a little spread",
      [](auto, auto c, float x) { return std::ldexp(x, static_cast<int>(c * 37 % 21) - 10); });
  add("columns spread",
      [](auto, auto c, float x) { return std::ldexp(x, static_cast<int>(c * 37 % 41) - 20); });
  add("elements spread", [](auto r, auto c, float x) {
    return std::ldexp(x, static_cast<int>((r * 31 + c * 37) % 61) - 50);
  });
  add("tiny", [](auto, auto, float x) { return std::ldexp(x, -130); });
  add("small", [](auto, auto, float x) { return std::ldexp(x, -110); });
  add("denormal", [](auto, auto, float x) { return std::ldexp(x, -145); });
  add("large", [](auto, auto, float x) { return std::ldexp(x, 97); });
  add("huge", [](auto, auto, float x) { return std::ldexp(x, 120); });
  add("one FLT_MAX", [](auto r, auto c, float x) { return r + c == 0 ? limits::max() : x; });
  add("one infinity", [](auto r, auto c, float x) { return r + c == 0 ? -limits::infinity() : x; });
  add("one NaN", [](auto r, auto c, float x) { return r + c == 0 ? limits::quiet_NaN() : x; });
  add("at the limit", [](auto r, auto, float x) {
    return std::ldexp(std::copysign(1.0f, x), r % 2 == 0 ? 0 : -27);
  });
  add("below the limit", [](auto r, auto, float x) {
    return std::ldexp(std::copysign(1.0f, x), r % 2 == 0 ? 0 : -28);
  });
  return sets;
}

}  // namespace llmc_test
