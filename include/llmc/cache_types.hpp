/// @file
/// Types of the layers that continue texts with a cache of keys and values.
#pragma once

#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/namespace.hpp>

LLMC_TYPES_BEGIN

/// Where a new token stands: in which text of the cache, and after how many tokens of it. A row
/// whose place is outside the cache takes no part.
struct cache_place {
  std::int32_t text;
  std::int32_t position;
};

/// Rows of new tokens, with queries, keys and values (rows, 3, NH, HS), and a cache of the keys and
/// of the values of texts, (texts, NH, capacity, HS) each.
struct cached_attention_shape {
  std::int64_t rows;
  std::int64_t texts;
  std::int64_t capacity;   ///< the most tokens of a text
  std::int64_t heads;      ///< NH
  std::int64_t head_size;  ///< HS

  bool has(cache_place at) const {
    return at.text >= 0 && at.text < texts && at.position >= 0 && at.position < capacity;
  }
};

namespace checks {

/// Rows may be 0, all else may not.
inline void require_shape(const char* function, cached_attention_shape shape) {
  require_at_least(function, "rows", shape.rows, 0);
  require_at_least(function, "texts", shape.texts, 1);
  require_at_least(function, "capacity", shape.capacity, 1);
  require_at_least(function, "heads", shape.heads, 1);
  require_at_least(function, "head_size", shape.head_size, 1);
  bytes<float>(function, 3, shape.rows, shape.heads, shape.head_size);
  bytes<float>(function, shape.texts, shape.heads, shape.capacity, shape.head_size);
}

}  // namespace checks
LLMC_TYPES_END
