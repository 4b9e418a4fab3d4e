/// @file
/// Inputs and right results of the layers that turn logits into losses and their gradient.
#pragma once

#include <llmc/reference/classifier.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "compare.hpp"
#include "gpu.cuh"
#include "random.hpp"

namespace llmc_test {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

inline bool all_nan(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isnan(v); });
}

struct classifier_case {
  llmc::classifier_shape shape;
  double range;                       ///< between the largest and the smallest logit
  std::vector<float> logits;          ///< NaN in the padding, which must not be read
  std::vector<std::int32_t> targets;  ///< some ignored, some out of range
  std::uint64_t out_of_range = 0;
  std::vector<float> dlosses;  ///< what each row's loss is multiplied by further on
  std::vector<double> losses;
  std::vector<double> dlogits;

  classifier_case(llmc::classifier_shape s, std::vector<float> d, double deviation = 1.0)
      : shape(s), range(12 * deviation), dlosses(std::move(d)) {
    logits = random_normal(s.rows * s.padded_vocabulary, 1, deviation);
    for (std::int64_t row = 0; row < s.rows; ++row) {
      std::fill_n(logits.begin() + row * s.padded_vocabulary + s.vocabulary,
                  s.padded_vocabulary - s.vocabulary, not_a_number);
    }
    targets = random_integers(s.rows, s.vocabulary, 2);
    const std::int32_t special[] = {llmc::ignored_target, static_cast<std::int32_t>(s.vocabulary),
                                    -1, std::numeric_limits<std::int32_t>::min()};
    for (std::size_t i = 0; i < 4 && i + 1 < targets.size(); ++i) targets[i + 1] = special[i];
    compute();
  }

  /// Rows given one after the other, without padding.
  classifier_case(std::int64_t vocabulary, std::vector<float> rows, std::vector<std::int32_t> t)
      : shape{static_cast<std::int64_t>(t.size()), vocabulary, vocabulary},
        range(0),
        logits(std::move(rows)),
        targets(std::move(t)),
        dlosses(targets.size(), 1.0f) {
    compute();
  }

  /// The elements of a result in the layout of the logits that belong to a row.
  std::vector<float> row(const std::vector<float>& values, std::int64_t index) const {
    const auto begin = values.begin() + index * shape.padded_vocabulary;
    return std::vector<float>(begin, begin + shape.vocabulary);
  }

 private:
  void compute() {
    losses.resize(targets.size());
    dlogits = widen(logits);
    llmc::reference::classifier_forward_backward(dlogits.data(), losses.data(), &out_of_range,
                                                 targets.data(), shape, 1.0);
    for (std::size_t i = 0; i < dlogits.size(); ++i) {
      dlogits[i] *= dlosses[i / static_cast<std::size_t>(shape.padded_vocabulary)];
    }
  }
};

inline void check_losses(const classifier_case& c, const std::vector<float>& actual) {
  // A relative error of the sum of exponentials is an absolute one of its logarithm.
  constexpr double eps = std::numeric_limits<float>::epsilon();
  check_close("losses", actual, c.losses,
              {probability_tolerance(c.shape.vocabulary, c.range).relative, 8 * eps});
}

/// Compares gradients relatively, except those of the targets, p - 1: where p is near 1 few digits
/// are left, so their error may be relative to the 1.
inline void check_dlogits(const classifier_case& c, std::vector<float> actual) {
  REQUIRE(actual.size() == c.dlogits.size());
  std::vector<double> expected = c.dlogits;
  std::vector<float> actual_targets;
  std::vector<double> expected_targets;
  for (std::int64_t row = 0; row < c.shape.rows; ++row) {
    const std::int32_t target = c.targets[static_cast<std::size_t>(row)];
    if (target < 0 || target >= c.shape.vocabulary) continue;
    const auto i = static_cast<std::size_t>(row * c.shape.padded_vocabulary + target);
    const float scale = c.dlosses[static_cast<std::size_t>(row)];
    actual_targets.push_back(actual[i] / scale);
    expected_targets.push_back(expected[i] / scale);
    actual[i] = 0;
    expected[i] = 0;
  }
  const tolerance allowed = probability_tolerance(c.shape.vocabulary, c.range);
  check_close("dlogits", actual, expected, allowed);
  check_close("dlogits of the targets", actual_targets, expected_targets, {allowed.relative, 0});
}

}  // namespace llmc_test
