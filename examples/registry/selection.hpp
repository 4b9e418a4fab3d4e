/// @file
/// Entries of an operation by what a user names of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "registry/registry.hpp"

namespace llmc_registry {

/// What is not named may be anything.
struct selection {
  static constexpr int default_block = 0;  ///< the one that the library takes for the variant

  std::optional<std::string> variant;
  std::optional<int> block_size;
  std::optional<std::string> precision;  ///< empty: of entries without one
};

/// The entries that are meant. Throws std::invalid_argument, and says what there is, if none is.
std::vector<entry> select(const operation& o, const selection& wanted);

}  // namespace llmc_registry
