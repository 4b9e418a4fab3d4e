// Both ways to merge against merging step by step, over vocabularies of all kinds.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "../support/catch.hpp"
#include "fixture_vocabulary.hpp"
#include "gpt2/tokens/heap_merge.hpp"
#include "gpt2/tokens/linear_merge.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

using ids = std::vector<std::int32_t>;

/// By definition: as long as there is a pair that merges, the first one of the lowest rank does.
ids merge_step_by_step(const vocabulary& words, const std::string& text) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> ranks;
  for (std::size_t i = 0; i < words.merges.size(); ++i) {
    ranks[{words.merges[i].left, words.merges[i].right}] = i;
  }
  ids tokens;
  for (const char c : text) {
    const auto is_byte = [&](const std::string& token) { return token == std::string(1, c); };
    const auto found = std::find_if(words.tokens.begin(), words.tokens.end(), is_byte);
    tokens.push_back(static_cast<std::int32_t>(found - words.tokens.begin()));
  }
  for (;;) {
    std::size_t lowest = words.merges.size();
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = ranks.find({tokens[i], tokens[i + 1]});
      if (found != ranks.end() && found->second < lowest) {
        lowest = found->second;
        place = i;
      }
    }
    if (lowest == words.merges.size()) return tokens;
    tokens[place] = words.merges[lowest].merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

/// What a made-up vocabulary has beside merges of earlier tokens.
struct oddities {
  bool shuffled_ids;     ///< ids say nothing of the order
  bool shuffled_merges;  ///< parts may be made after the merge that takes them
  bool more_splits;      ///< a token may come of several pairs
  bool repeated;         ///< pairs that are listed twice
  bool unmade;           ///< tokens that no merge makes, and merges of those
};

class vocabulary_maker {
 public:
  vocabulary_maker(std::mt19937& random, const std::string& letters) : random_(random) {
    for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
    for (const char letter : letters) parts_.emplace_back(1, letter);
  }

  vocabulary make(std::size_t merges, const oddities& odd) {
    for (std::size_t i = 0; i < merges; ++i) {
      if (odd.unmade && random_() % 8 == 0) {
        const std::string never = any_part() + any_part();
        if (add(never)) parts_.push_back(never);
      }
      const std::string left = any_part(), right = any_part();
      if (left.size() + right.size() > 12) continue;
      const bool is_new = add(left + right);
      if (is_new) parts_.push_back(left + right);
      if (is_new || odd.more_splits) merge(left, right);
    }
    if (odd.repeated && !words_.merges.empty()) {
      for (int i = 0; i < 4; ++i) words_.merges.push_back(words_.merges[random_() % merges_()]);
    }
    if (odd.shuffled_merges) std::shuffle(words_.merges.begin(), words_.merges.end(), random_);
    if (odd.shuffled_ids) shuffle_ids();
    return words_;
  }

 private:
  std::size_t merges_() const { return words_.merges.size(); }
  const std::string& any_part() { return parts_[random_() % parts_.size()]; }
  bool add(const std::string& token) {
    const auto id = static_cast<std::int32_t>(words_.tokens.size());
    if (!ids_.emplace(token, id).second) return false;
    words_.tokens.push_back(token);
    return true;
  }
  void merge(const std::string& left, const std::string& right) {
    words_.merges.push_back({ids_.at(left), ids_.at(right), ids_.at(left + right)});
  }
  void shuffle_ids() {
    std::vector<std::size_t> to(words_.tokens.size());
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = i;
    std::shuffle(to.begin(), to.end(), random_);
    std::vector<std::string> tokens(to.size());
    for (std::size_t i = 0; i < to.size(); ++i) tokens[to[i]] = words_.tokens[i];
    words_.tokens = tokens;
    const auto moved = [&](std::int32_t& id) {
      id = static_cast<std::int32_t>(to[static_cast<std::size_t>(id)]);
    };
    for (token_merge& merge : words_.merges) {
      moved(merge.left), moved(merge.right), moved(merge.merged);
    }
  }

  std::mt19937& random_;
  vocabulary words_;
  std::map<std::string, std::int32_t> ids_;
  std::vector<std::string> parts_;  // may repeat: what repeats is taken more often
};

std::string random_text(std::mt19937& random, const std::string& letters, std::size_t length) {
  std::string text(length, ' ');
  for (char& c : text) c = letters[random() % letters.size()];
  return text;
}

}  // namespace

TEST_CASE("merging: both ways are merging step by step, whatever the vocabulary", "[tokens]") {
  std::mt19937 random(1);
  int linear = 0;
  int others = 0;
  for (int i = 0; i < 800; ++i) {
    const std::string letters = std::string("abcd").substr(0, 1 + random() % 4);
    const oddities odd = {i % 2 == 0, i % 5 == 0, i % 3 == 0, i % 7 == 0, i % 4 == 0};
    const vocabulary words = vocabulary_maker(random, letters).make(1 + random() % 60, odd);
    const merge_rules rules(words);
    const linear_merge by_match(words, rules);
    (by_match.applies() ? linear : others) += 1;
    if (!odd.shuffled_merges && !odd.more_splits && !odd.repeated) REQUIRE(by_match.applies());
    for (int j = 0; j < 20; ++j) {
      const std::string text = random_text(random, letters, 1 + random() % (j == 0 ? 300 : 30));
      const ids wanted = merge_step_by_step(words, text);
      ids heap;
      merge_by_heap(rules, text, heap);
      REQUIRE(heap == wanted);
      if (by_match.applies()) {
        ids match;
        by_match.encode(rules, text, match);
        REQUIRE(match == wanted);
      }
    }
  }
  CHECK(linear > 500);  // so that each way has been tested
  CHECK(others > 50);
}

TEST_CASE("merging: a trained vocabulary merges in linear time, as step by step", "[tokens]") {
  const vocabulary words = fixture_vocabulary(LLMC_TEST_FIXTURES);
  const merge_rules rules(words);
  const linear_merge by_match(words, rules);
  REQUIRE(by_match.applies());
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int j = 0; j < 8; ++j) text += words.tokens[random() % (words.tokens.size() - 1)];
    ids tokens = {7};  // tokens are appended
    by_match.encode(rules, text, tokens);
    ids wanted = merge_step_by_step(words, text);
    wanted.insert(wanted.begin(), 7);
    REQUIRE(tokens == wanted);
  }
}

TEST_CASE("merging: a million spaces are no matter", "[tokens]") {
  const vocabulary words = fixture_vocabulary(LLMC_TEST_FIXTURES);
  const merge_rules rules(words);
  const linear_merge by_match(words, rules);
  const std::string text(1000001, ' ');
  ids match, heap;
  by_match.encode(rules, text, match);
  merge_by_heap(rules, text, heap);
  CHECK(match.size() < 600000);
  CHECK(match == heap);
}
