/// @file
/// What the operations on rows of channels share.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "registry/registry.hpp"

namespace llmc_registry {

inline constexpr std::int64_t gpt2_rows = 8192;  ///< B = 8, T = 1024
inline constexpr std::int64_t gpt2_channels = 768;
inline constexpr std::int64_t gpt2_vocabulary = 50257;
inline constexpr std::int64_t gpt2_padded_vocabulary = 50304;
inline constexpr std::int64_t any_number = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t few_rows = 61;

inline std::vector<parameter> row_parameters(std::int64_t channels) {
  return {{"rows", gpt2_rows, few_rows}, {"channels", channels, any_number}};
}

inline std::vector<extents> awkward_rows() {
  std::vector<extents> shapes;
  for (const auto& [rows, channels] : std::initializer_list<llmc::row_shape>{
           {1, 1}, {5, 3}, {33, 32}, {7, 127}, {130, 257}, {64, 768}, {3, 4097}}) {
    shapes.push_back({{"rows", rows}, {"channels", channels}});
  }
  return shapes;
}

inline llmc::row_shape row_shape_of(const extents& e) {
  return {e.at("rows"), e.at("channels")};
}

inline std::int64_t count_of(llmc::row_shape s) {
  return s.rows * s.channels;
}

/// For a sum over rows of numbers that are exact to `t`.
inline tolerance summed_over_rows(tolerance t, std::int64_t rows) {
  return {std::sqrt(static_cast<double>(rows)) * t.absolute, t.relative + 1e-5};
}

inline std::vector<double> zeros(std::int64_t count) {
  return std::vector<double>(static_cast<std::size_t>(count), 0.0);
}

/// Base of the problems on all numbers or all rows of a matrix. `Channels` is how many channels
/// this matrix has in GPT-2.
template <std::int64_t Channels>
class row_problem : public problem {
 public:
  static std::vector<parameter> parameters() { return row_parameters(Channels); }
  static std::vector<extents> awkward() { return awkward_rows(); }

 protected:
  row_problem(const extents& e, settings s)
      : problem(s), shape_(row_shape_of(e)), count_(count_of(shape_)) {}

  llmc::row_shape shape_;
  std::int64_t count_;
};

}  // namespace llmc_registry
