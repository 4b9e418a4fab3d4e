#include "gpt2/tokens/linear_merge.hpp"

#include <cstddef>
#include <utility>

namespace gpt2_trainer {

namespace {

/// The places of a piece from which no tokens go on. Most pieces are short.
class place_set {
 public:
  explicit place_set(std::size_t places) : more_(places / 64) {}

  bool contains(std::size_t place) const { return word(place) >> place % 64 & 1; }
  void add(std::size_t place) {
    (place < 64 ? first_ : more_[place / 64 - 1]) |= std::uint64_t{1} << place % 64;
  }

 private:
  std::uint64_t word(std::size_t place) const {
    return place < 64 ? first_ : more_[place / 64 - 1];
  }

  std::uint64_t first_ = 0;
  std::vector<std::uint64_t> more_;
};

}  // namespace

linear_merge::linear_merge(const vocabulary& words, const merge_rules& rules)
    : origins_(words.tokens.size()), trie_({}) {
  find_origins(words, rules);
  if (applies_) find_shorter(words);
}

void linear_merge::find_origins(const vocabulary& words, const merge_rules& rules) {
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const std::int32_t token = rules.byte_token(static_cast<char>(byte));
    origins_[static_cast<std::size_t>(token)].made = 0;
  }
  std::vector<const token_merge*> of_unmade;
  for (std::size_t rank = 0; rank < words.merges.size(); ++rank) {
    const token_merge& merge = words.merges[rank];
    if (rules.rank_of(merge.left, merge.right) != rank) continue;  // a later line counts
    if (origin_of(merge.left).made == not_made || origin_of(merge.right).made == not_made) {
      of_unmade.push_back(&merge);
      continue;
    }
    origin& merged = origins_[static_cast<std::size_t>(merge.merged)];
    const auto made = static_cast<std::uint32_t>(rank + 1);
    if (merged.made == not_made && stay_apart(rules, merge.left, merge.right, made)) {
      merged.made = made;
      merged.left = merge.left;
      merged.right = merge.right;
    }
  }
  for (const token_merge* merge : of_unmade) {
    // A part that is never made is no matter: this merge never happens.
    applies_ &= origin_of(merge->left).made == not_made || origin_of(merge->right).made == not_made;
  }
}

void linear_merge::find_shorter(const vocabulary& words) {
  std::vector<std::pair<std::string_view, std::int32_t>> tokens;
  for (std::size_t id = 0; id < words.tokens.size(); ++id) {
    if (origins_[id].made == not_made) continue;
    origins_[id].length = static_cast<std::uint32_t>(words.tokens[id].size());
    tokens.emplace_back(words.tokens[id], static_cast<std::int32_t>(id));
  }
  trie_ = token_trie(tokens);
  for (const auto& [text, token] : tokens) {
    origins_[static_cast<std::size_t>(token)].shorter =
        trie_.longest(text.data(), text.data() + text.size() - 1);
  }
}

/// Whether nothing merges across the border of two tokens, taken by themselves, before the step
/// `until`. The merges that make them are undone one by one, the last one first.
bool linear_merge::stay_apart(const merge_rules& rules, std::int32_t left, std::int32_t right,
                              std::uint32_t until) const {
  std::uint32_t left_until = until;  // the step in which this token becomes part of a longer one
  std::uint32_t right_until = until;
  for (;;) {
    const std::uint32_t rank = rules.rank_of(left, right);
    // Of merges of one rank the leftmost happens first: that within the left token, then the one
    // across, then that within the right token.
    if (rank != merge_rules::never && rank + 1 < left_until && rank + 1 <= right_until) {
      return false;
    }
    const origin& left_origin = origin_of(left);
    const origin& right_origin = origin_of(right);
    if (left_origin.made > right_origin.made) {
      left_until = left_origin.made;
      left = left_origin.right;
    } else if (right_origin.made != 0) {
      right_until = right_origin.made;
      right = right_origin.left;
    } else {
      return true;
    }
  }
}

void linear_merge::encode(const merge_rules& rules, std::string_view piece,
                          std::vector<std::int32_t>& to) const {
  const char* const end = piece.data() + piece.size();
  const std::size_t first = to.size();
  place_set dead_ends(piece.size());
  std::size_t at = 0;
  std::int32_t next = trie_.longest(piece.data(), end);
  while (at < piece.size()) {
    const bool begins = to.size() == first;
    while (next != token_trie::none) {
      const bool goes_on = !dead_ends.contains(at + origin_of(next).length) &&
                           (begins || stay_apart(rules, to.back(), next, merge_rules::never));
      if (goes_on) break;
      next = origin_of(next).shorter;
    }
    if (next != token_trie::none) {
      to.push_back(next);
      at += origin_of(next).length;
      next = trie_.longest(piece.data() + at, end);
    } else {
      dead_ends.add(at);
      const std::int32_t last = to.back();
      to.pop_back();
      at -= origin_of(last).length;
      next = origin_of(last).shorter;
    }
  }
}

}  // namespace gpt2_trainer
