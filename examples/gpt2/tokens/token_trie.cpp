#include "gpt2/tokens/token_trie.hpp"

#include <algorithm>

namespace gpt2_trainer {

namespace {

/// Texts [first, last) of the sorted ones begin with the same `depth` bytes, those of `node`.
struct subtree {
  std::size_t first;
  std::size_t last;
  std::size_t depth;
  std::int32_t node;
};

struct child {
  unsigned char byte;
  std::size_t first;
  std::size_t last;
};

}  // namespace

token_trie::token_trie(std::vector<std::pair<std::string_view, std::int32_t>> tokens) {
  std::sort(tokens.begin(), tokens.end());
  constexpr std::size_t bytes = 256;
  nodes_.resize(1 + bytes);
  std::size_t first_free = 1;
  std::vector<subtree> open = {{0, tokens.size(), 0, 0}};
  std::vector<child> children;
  while (!open.empty()) {
    const subtree tree = open.back();
    open.pop_back();
    children.clear();
    for (std::size_t i = tree.first; i < tree.last; ++i) {
      const auto& [text, token] = tokens[i];
      if (text.size() == tree.depth) {
        nodes_[static_cast<std::size_t>(tree.node)].token = token;
        continue;
      }
      const auto byte = static_cast<unsigned char>(text[tree.depth]);
      if (children.empty() || children.back().byte != byte) children.push_back({byte, i, i});
      children.back().last = i + 1;
    }
    if (children.empty()) continue;  // its base may be any: no node has it as its parent
    // The first base with which the places of all children are free.
    const auto is_free = [&](std::size_t place) { return nodes_[place].parent == none; };
    while (first_free < nodes_.size() && !is_free(first_free)) ++first_free;
    const std::size_t lowest = children.front().byte;
    std::size_t base = first_free > lowest ? first_free - lowest : 1;
    for (;; ++base) {
      if (base + 2 * bytes > nodes_.size()) nodes_.resize(2 * nodes_.size() + 2 * bytes);
      const auto fits = [&](const child& next) { return is_free(base + next.byte); };
      if (std::all_of(children.begin(), children.end(), fits)) break;
    }
    nodes_[static_cast<std::size_t>(tree.node)].base = static_cast<std::int32_t>(base);
    for (const child& next : children) {
      const std::size_t place = base + next.byte;
      nodes_[place].parent = tree.node;
      open.push_back({next.first, next.last, tree.depth + 1, static_cast<std::int32_t>(place)});
    }
  }
}

}  // namespace gpt2_trainer
