/// @file
/// Checks of layers on the scores of attention, (B, NH, T, T).
#pragma once

#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN
namespace checks {

/// Batch and sequence may be 0; returns the number of rows of scores.
inline std::int64_t require_scores(const char* function, attention_shape shape) {
  require_shape(function, shape);
  bytes<float>(function, shape.batch, shape.heads, shape.sequence, shape.sequence);
  return checked_product(function, shape.batch, shape.heads, shape.sequence);
}

}  // namespace checks
LLMC_TYPES_END
