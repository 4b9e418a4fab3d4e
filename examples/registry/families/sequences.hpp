/// @file
/// What the operations around attention share.
#pragma once

#include <cstdint>
#include <vector>

#include "registry/families/rows.hpp"
#include "registry/registry.hpp"

namespace llmc_registry {

/// GPT-2's B, T and NH for 8192 rows.
inline std::vector<parameter> score_parameters() {
  return {{"batch", 8, 2}, {"sequence", 1024, 150}, {"heads", 12, 3}};
}

inline std::vector<parameter> head_parameters() {
  std::vector<parameter> all = score_parameters();
  all.push_back({"head_size", 64, 256});
  return all;
}

/// An operation on scores has no head size; any will do.
inline llmc::attention_shape attention_shape_of(const extents& e) {
  const auto head_size = e.find("head_size");
  return {e.at("batch"), e.at("sequence"), e.at("heads"),
          head_size == e.end() ? 1 : head_size->second};
}

/// Elements of one of q, k and v.
inline std::int64_t vectors_of(llmc::attention_shape s) {
  return s.batch * s.sequence * s.heads * s.head_size;
}

/// Elements of (B, NH, T, T).
inline std::int64_t scores_of(llmc::attention_shape s) {
  return s.batch * s.heads * s.sequence * s.sequence;
}

}  // namespace llmc_registry
