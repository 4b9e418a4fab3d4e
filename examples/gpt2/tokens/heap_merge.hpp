/// @file
/// Merging by rank, in n log n steps whatever the merges are.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "gpt2/tokens/merge_rules.hpp"

namespace gpt2_trainer {

/// Appends the tokens of a piece: its bytes, of which always the pair with the lowest rank merges,
/// the leftmost of equal ones first.
void merge_by_heap(const merge_rules& rules, std::string_view piece, std::vector<std::int32_t>& to);

}  // namespace gpt2_trainer
