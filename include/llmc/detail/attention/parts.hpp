/// @file
/// Checks of layers that move the heads of several tensors.
#pragma once

#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN
namespace checks {

/// Batch and sequence may be 0, parts may not; returns the number of elements.
inline std::int64_t require_parts(const char* function, attention_shape shape, int parts) {
  require_shape(function, shape);
  require_at_least(function, "parts", parts, 1);
  bytes<float>(function, parts, shape.batch, shape.sequence, shape.heads, shape.head_size);
  return parts * shape.batch * shape.sequence * shape.heads * shape.head_size;
}

}  // namespace checks
LLMC_TYPES_END
