/// @file
/// The merges of a vocabulary, checked, and found by the two tokens that meet.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "gpt2/tokens/vocabulary.hpp"

namespace gpt2_trainer {

/// When two tokens merge: those with the lowest rank first. Of a pair that is listed twice the last
/// counts, as in tokenizers.
class merge_rules {
 public:
  static constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();

  /// An input_error if a byte has no token or several, or a merge is not one of tokens.
  explicit merge_rules(const vocabulary& words);

  std::int32_t byte_token(char byte) const {
    return byte_tokens_[static_cast<unsigned char>(byte)];
  }
  /// The rank of a pair; `never` if the two do not merge.
  std::uint32_t rank_of(std::int32_t left, std::int32_t right) const {
    const std::uint64_t key = key_of(left, right);
    std::size_t at = slot_of(key);
    while (slots_[at].key != key && slots_[at].key != empty) at = (at + 1) & mask_;
    return slots_[at].rank;
  }
  std::int32_t merged(std::uint32_t rank) const { return merged_[rank]; }

 private:
  static constexpr std::uint64_t empty = std::numeric_limits<std::uint64_t>::max();
  struct slot {
    std::uint64_t key = empty;
    std::uint32_t rank = never;
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t slot_of(std::uint64_t key) const {
    return static_cast<std::size_t>(key * 0x9E3779B97F4A7C15u >> shift_);
  }

  std::array<std::int32_t, 256> byte_tokens_;
  std::vector<std::int32_t> merged_;
  std::vector<slot> slots_;  // open addressing, at most half full
  std::size_t mask_ = 0;
  int shift_ = 0;
};

}  // namespace gpt2_trainer
