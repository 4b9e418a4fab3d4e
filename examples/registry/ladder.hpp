/// @file
/// Makes an operation of the registry from the class of its problems. Such a class, say that of
/// layernorm_forward, derives from `problem` and has
///
///  - `variants`: llmc::layernorm_forward_variants;
///  - `default_block_size<Variant>`: llmc::layernorm_forward_block_size<Variant>;
///  - `block_sizes<Variant>()`, if not `any_block_size`: those that the variant can be launched
///  with;
///  - `parameters()` and `awkward()`: see `operation`;
///  - a constructor from (extents, settings);
///  - `launch<Variant, BlockSize>(stream)`;
///  - `has_precision`, where the launcher takes one: `launch` then passes on `arithmetic()`;
///  - `ignores_precision<Variant>`, true for variants that do not ask what it is.
///
/// A variant is here as soon as it is an enumerator: one that is missing from `variants`, or has no
/// name, does not compile.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <llmc/types.hpp>

#include "registry/registry.hpp"

namespace llmc_registry {

/// Whether the value is one of its enum's. A compiler writes a value that is not as a cast:
/// (variant)7.
template <auto Value>
constexpr bool is_enumerator() {
  const std::string_view text = __PRETTY_FUNCTION__;  // "... [with auto Value = variant::naive]"
  const char after_cast = text[text.rfind(')') + 1];
  return after_cast < '0' || after_cast > '9';
}

/// Whether the array holds every enumerator, in order, and each has a name of its own.
template <const auto& Variants>
constexpr bool is_complete() {
  using variant = typename std::decay_t<decltype(Variants)>::value_type;
  for (std::size_t i = 0; i < Variants.size(); ++i) {
    const std::string_view name = to_string(Variants[i]);
    if (Variants[i] != static_cast<variant>(i) || name == "unknown") return false;
    for (std::size_t j = 0; j < i; ++j) {
      if (name == to_string(Variants[j])) return false;
    }
  }
  return !is_enumerator<static_cast<variant>(Variants.size())>();
}

/// The variants of a launcher that has none to choose from.
enum class sole_variant { automatic };

inline constexpr std::array sole_variants{sole_variant::automatic};

constexpr const char* to_string(sole_variant) {
  return "automatic";
}

/// The block sizes over which a variant is swept. `automatic` only chooses a variant, so it is run
/// with its default alone.
template <class Problem, auto Variant>
constexpr auto swept_block_sizes() {
  if constexpr (Variant == decltype(Variant)::automatic) {
    return std::array{Problem::template default_block_size<Variant>};
  } else {
    return Problem::template block_sizes<Variant>();
  }
}

template <class Problem, auto Variant, int BlockSize>
void add_entry(std::vector<entry>& entries) {
  entry e;
  e.variant = to_string(Variant);
  e.block_size = BlockSize;
  e.is_default = BlockSize == Problem::template default_block_size<Variant>;
  e.launch = [](problem& p, cudaStream_t stream) {
    static_cast<Problem&>(p).template launch<Variant, BlockSize>(stream);
  };
  if constexpr (Problem::has_precision) {
    for (const auto p : llmc::precisions) {
      if (Problem::template ignores_precision<Variant> && p != llmc::precision::ieee) break;
      e.arithmetic = p;
      entries.push_back(e);
    }
  } else {
    entries.push_back(e);
  }
}

template <class Problem, auto Variant, std::size_t... I>
void add_variant(std::vector<entry>& entries, std::index_sequence<I...>) {
  (add_entry<Problem, Variant, swept_block_sizes<Problem, Variant>()[I]>(entries), ...);
}

template <class Problem, std::size_t... I>
std::vector<entry> make_entries(std::index_sequence<I...>) {
  std::vector<entry> entries;
  (add_variant<Problem, Problem::variants[I]>(
       entries,
       std::make_index_sequence<swept_block_sizes<Problem, Problem::variants[I]>().size()>{}),
   ...);
  return entries;
}

template <class Problem>
operation make_operation(std::string name) {
  static_assert(is_complete<Problem::variants>(),
                "the array of variants must hold every enumerator, in order, and each a name");
  operation o;
  o.name = std::move(name);
  o.parameters = Problem::parameters();
  o.awkward = Problem::awkward();
  o.entries = make_entries<Problem>(std::make_index_sequence<Problem::variants.size()>{});
  o.make_problem = [](const extents& shape, settings s) -> std::unique_ptr<problem> {
    return std::make_unique<Problem>(shape, s);
  };
  return o;
}

}  // namespace llmc_registry
