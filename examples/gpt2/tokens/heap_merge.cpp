#include "gpt2/tokens/heap_merge.hpp"

#include <cstddef>
#include <functional>
#include <queue>
#include <utility>

namespace gpt2_trainer {

namespace {

constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

/// A token of the piece, at the place of its first byte.
struct part {
  std::int32_t token;
  std::size_t before;
  std::size_t after;
};

using ranked_place = std::pair<std::uint32_t, std::size_t>;
using lowest_first =
    std::priority_queue<ranked_place, std::vector<ranked_place>, std::greater<ranked_place>>;

}  // namespace

void merge_by_heap(const merge_rules& rules, std::string_view piece,
                   std::vector<std::int32_t>& to) {
  std::vector<part> parts(piece.size());
  for (std::size_t at = 0; at < piece.size(); ++at) {
    parts[at] = {rules.byte_token(piece[at]), at == 0 ? nowhere : at - 1,
                 at + 1 == piece.size() ? nowhere : at + 1};
  }
  const auto rank_at = [&](std::size_t at) {
    const std::size_t after = at == nowhere ? nowhere : parts[at].after;
    return after == nowhere ? merge_rules::never
                            : rules.rank_of(parts[at].token, parts[after].token);
  };
  lowest_first places;
  const auto consider = [&](std::size_t at) {
    const std::uint32_t rank = rank_at(at);
    if (rank != merge_rules::never) places.emplace(rank, at);
  };
  for (std::size_t at = 0; at < piece.size(); ++at) consider(at);
  while (!places.empty()) {
    const auto [rank, at] = places.top();
    places.pop();
    if (rank_at(at) != rank) continue;  // one of the two has merged in the meantime
    const std::size_t gone = parts[at].after;
    parts[at].token = rules.merged(rank);
    parts[at].after = parts[gone].after;
    if (parts[at].after != nowhere) parts[parts[at].after].before = at;
    parts[gone].after = nowhere;
    consider(parts[at].before);
    consider(at);
  }
  for (std::size_t at = 0; at != nowhere && at < piece.size(); at = parts[at].after) {
    to.push_back(parts[at].token);
  }
}

}  // namespace gpt2_trainer
