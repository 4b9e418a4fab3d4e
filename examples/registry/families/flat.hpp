/// @file
/// What the operations on all parameters at once share.
#pragma once

#include <cstdint>
#include <vector>

#include "registry/registry.hpp"

namespace llmc_registry {

inline std::vector<parameter> flat_parameters() {
  constexpr std::int64_t gpt2_parameters = 124'475'904;  // with the padded vocabulary
  return {{"count", gpt2_parameters, 1'000'003}};
}

inline std::vector<extents> awkward_counts() {
  std::vector<extents> shapes;
  for (const std::int64_t count : {1, 3, 31, 1025, 8191, 300'001}) {
    shapes.push_back({{"count", count}});
  }
  return shapes;
}

}  // namespace llmc_registry
