#include "gpt2/tokens/merge_rules.hpp"

#include <string>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {

namespace {

constexpr std::int32_t none = -1;

[[noreturn]] void refuse(const std::string& what) {
  throw input_error("vocabulary: " + what);
}

std::array<std::int32_t, 256> find_byte_tokens(const vocabulary& words) {
  std::vector<bool> special(words.tokens.size(), false);
  for (const special_token& token : words.specials) {
    special[static_cast<std::size_t>(token.id)] = true;
  }
  std::array<std::int32_t, 256> found;
  found.fill(none);
  for (std::size_t id = 0; id < words.tokens.size(); ++id) {
    if (words.tokens[id].size() != 1 || special[id]) continue;
    const auto byte = static_cast<unsigned char>(words.tokens[id].front());
    if (found[byte] != none) {
      refuse("tokens " + std::to_string(found[byte]) + " and " + std::to_string(id) +
             " are both the byte " + std::to_string(byte) + ", wanted one token a byte");
    }
    found[byte] = static_cast<std::int32_t>(id);
  }
  for (std::size_t byte = 0; byte < found.size(); ++byte) {
    if (found[byte] == none) {
      refuse("no token is the byte " + std::to_string(byte) + ", wanted one for each of 256");
    }
  }
  return found;
}

void check(const vocabulary& words, const token_merge& merge, std::size_t place) {
  const std::string which = "merge " + std::to_string(place + 1) + " ";
  for (const std::int32_t id : {merge.left, merge.right, merge.merged}) {
    if (id < 0 || static_cast<std::size_t>(id) >= words.tokens.size()) {
      refuse(which + "names token " + std::to_string(id) + ", wanted one of " +
             std::to_string(words.tokens.size()) + " tokens from 0 on");
    }
  }
  const auto bytes = [&](std::int32_t id) { return words.tokens[static_cast<std::size_t>(id)]; };
  if (bytes(merge.left) + bytes(merge.right) != bytes(merge.merged)) {
    refuse(which + "makes token " + std::to_string(merge.merged) + " of " +
           std::to_string(merge.left) + " and " + std::to_string(merge.right) +
           ", wanted a token of their bytes");
  }
}

}  // namespace

merge_rules::merge_rules(const vocabulary& words) : byte_tokens_(find_byte_tokens(words)) {
  int bits = 1;
  while (std::size_t{1} << bits < 2 * words.merges.size()) ++bits;
  slots_.resize(std::size_t{1} << bits);
  mask_ = slots_.size() - 1;
  shift_ = 64 - bits;
  merged_.reserve(words.merges.size());
  for (std::size_t rank = 0; rank < words.merges.size(); ++rank) {
    const token_merge& merge = words.merges[rank];
    check(words, merge, rank);
    const std::uint64_t key = key_of(merge.left, merge.right);
    std::size_t at = slot_of(key);
    while (slots_[at].key != key && slots_[at].key != empty) at = (at + 1) & mask_;
    slots_[at] = {key, static_cast<std::uint32_t>(rank)};
    merged_.push_back(merge.merged);
  }
}

}  // namespace gpt2_trainer
