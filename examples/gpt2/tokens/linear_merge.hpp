/// @file
/// Merging by rank in linear time.
///
/// What merging makes of a text is the one sequence of tokens of these bytes in which each token
/// is what merging makes of its own bytes and each two neighbours are what it makes of theirs: as
/// long as nothing has merged across a border between tokens, what happens on either side is what
/// would happen there alone, and the first merge across a border would happen between these two
/// neighbours alone, too. So tokens are taken from left to right, the longest first, each tested
/// with the one before it only; where none goes on, the last one is taken back for a shorter one.
/// The tokens up to a place are the only ones up to there, so a place from which nothing goes on
/// is never tried again.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "gpt2/tokens/merge_rules.hpp"
#include "gpt2/tokens/token_trie.hpp"

namespace gpt2_trainer {

class linear_merge {
 public:
  linear_merge(const vocabulary& words, const merge_rules& rules);

  /// Whether this is exact: no token that a merge takes is made by that merge or a later one. Then
  /// the merges within a text happen in the order of their ranks. Any trained vocabulary is so.
  bool applies() const { return applies_; }

  /// Appends the tokens of a piece that is not empty.
  void encode(const merge_rules& rules, std::string_view piece,
              std::vector<std::int32_t>& to) const;

 private:
  /// How a token comes to be from its own bytes.
  struct origin {
    std::uint32_t made = not_made;  ///< 1 + the rank of its last merge; 0: a byte
    std::int32_t left = 0;          ///< the two that merge last
    std::int32_t right = 0;
    std::int32_t shorter = token_trie::none;  ///< the longest token with which its bytes begin
    std::uint32_t length = 0;                 ///< in bytes
  };
  static constexpr std::uint32_t not_made = merge_rules::never;

  const origin& origin_of(std::int32_t token) const {
    return origins_[static_cast<std::size_t>(token)];
  }
  void find_origins(const vocabulary& words, const merge_rules& rules);
  void find_shorter(const vocabulary& words);
  bool stay_apart(const merge_rules& rules, std::int32_t left, std::int32_t right,
                  std::uint32_t until) const;

  std::vector<origin> origins_;
  bool applies_ = true;
  token_trie trie_;
};

}  // namespace gpt2_trainer
