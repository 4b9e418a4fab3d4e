/// @file
/// What the losses share: shapes of logits, targets and tolerances.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <llmc/types.hpp>

#include "registry/families/rows.hpp"

namespace llmc_registry {

inline std::vector<parameter> logits_parameters() {
  return {{"rows", gpt2_rows, few_rows},
          {"vocabulary", gpt2_vocabulary, any_number},
          {"padded_vocabulary", gpt2_padded_vocabulary, any_number}};
}

inline std::vector<extents> awkward_logits() {
  std::vector<extents> shapes;
  for (const auto& [rows, vocabulary, padded] : std::initializer_list<llmc::classifier_shape>{
           {1, 1, 1}, {5, 3, 4}, {33, 32, 32}, {7, 127, 128}, {130, 257, 260}, {3, 4097, 4099}}) {
    shapes.push_back({{"rows", rows}, {"vocabulary", vocabulary}, {"padded_vocabulary", padded}});
  }
  return shapes;
}

inline llmc::classifier_shape logits_shape_of(const extents& e) {
  return {e.at("rows"), e.at("vocabulary"), e.at("padded_vocabulary")};
}

inline std::int64_t count_of(llmc::classifier_shape s) {
  return s.rows * s.padded_vocabulary;
}

/// Each row but the second has a target.
inline std::vector<std::int32_t> random_targets(llmc::classifier_shape s) {
  std::mt19937 engine(1);
  std::vector<std::int32_t> targets(static_cast<std::size_t>(s.rows));
  for (std::int32_t& target : targets) {
    target = static_cast<std::int32_t>(engine() % static_cast<std::uint64_t>(s.vocabulary));
  }
  if (targets.size() > 1) targets[1] = llmc::ignored_target;
  return targets;
}

inline tolerance logits_tolerance(std::int64_t vocabulary) {
  constexpr double range = 12;  // between the largest and the smallest of many normal numbers
  return llmc_test::probability_tolerance(vocabulary, range);
}

/// A relative error of the sum of exponentials is an absolute one of its logarithm.
inline tolerance loss_tolerance(std::int64_t vocabulary) {
  return {logits_tolerance(vocabulary).relative, 1e-6};
}

/// For p * scale, or (p - 1) * scale for the target. The latter loses digits where p is near 1, so
/// the absolute error allowed is that of a typical p.
inline tolerance dlogits_tolerance(std::int64_t vocabulary, double scale) {
  const double relative = logits_tolerance(vocabulary).relative;
  return {relative * scale / static_cast<double>(vocabulary), relative};
}

}  // namespace llmc_registry
