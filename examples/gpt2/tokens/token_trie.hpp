/// @file
/// The longest token with which a text begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace gpt2_trainer {

/// A trie in a double array: the child of a node by a byte lies at the node's base plus the byte,
/// if it names that node as its parent.
class token_trie {
 public:
  static constexpr std::int32_t none = -1;

  /// Of texts, all different and none empty, in any order, and their tokens.
  explicit token_trie(std::vector<std::pair<std::string_view, std::int32_t>> tokens);

  /// The longest token with which [at, end) begins; `none` if there is no such token.
  std::int32_t longest(const char* at, const char* end) const {
    std::int32_t found = none;
    std::int32_t place = 0;
    for (; at != end; ++at) {
      const std::int32_t child =
          nodes_[static_cast<std::size_t>(place)].base + static_cast<unsigned char>(*at);
      const auto& next = nodes_[static_cast<std::size_t>(child)];
      if (next.parent != place) break;
      if (next.token != none) found = next.token;
      place = child;
    }
    return found;
  }

 private:
  struct node {
    std::int32_t base = 0;
    std::int32_t parent = none;
    std::int32_t token = none;
  };

  std::vector<node> nodes_;
};

}  // namespace gpt2_trainer
