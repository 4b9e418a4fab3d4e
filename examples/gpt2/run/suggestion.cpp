#include "gpt2/run/suggestion.hpp"

#include <algorithm>
#include <cstddef>

namespace gpt2_trainer {
namespace {

/// How many characters must be put in, left out, changed or swapped with the next one to make one
/// word of the other.
std::size_t distance(const std::string& a, const std::string& b) {
  // Of the first i characters of a and the first j of b.
  std::vector<std::vector<std::size_t>> of(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        of[i][j] = i + j;
        continue;
      }
      const bool same = a[i - 1] == b[j - 1];
      of[i][j] = std::min({of[i - 1][j] + 1, of[i][j - 1] + 1, of[i - 1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        of[i][j] = std::min(of[i][j], of[i - 2][j - 2] + 1);
      }
    }
  }
  return of[a.size()][b.size()];
}

bool begins_with(const std::string& text, const std::string& part) {
  return text.compare(0, part.size(), part) == 0;
}

/// In lower case, without the hyphens before it and with hyphens for underscores.
std::string plain(std::string word) {
  for (char& c : word) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '_') c = '-';
  }
  return word.substr(std::min(word.find_first_not_of('-'), word.size()));
}

/// The less, the nearer.
std::size_t difference(const std::string& typed, const std::string& word) {
  constexpr std::size_t least_part = 3;
  const std::string& part = typed.size() < word.size() ? typed : word;
  const bool one_begins_the_other = begins_with(typed, part) && begins_with(word, part);
  if (one_begins_the_other && part.size() >= least_part) return typed == word ? 0 : 1;
  return distance(typed, word);
}

}  // namespace

std::string suggestion(const std::string& typed, const std::vector<std::string>& words) {
  const std::string text = plain(typed);
  // A word of three letters may have one slip, one of six two; a short text may be any word.
  std::size_t least = std::min(text.size() / 3, std::size_t{2});
  std::vector<std::string> nearest;
  for (const std::string& word : words) {
    const std::size_t slips = difference(text, plain(word));
    if (slips > least) continue;
    if (slips < least) nearest.clear();
    least = slips;
    nearest.push_back(word);
  }
  std::string joined;
  for (const std::string& word : nearest) joined += (joined.empty() ? "" : " or ") + word;
  return joined.empty() ? "" : "; did you mean " + joined + "?";
}

}  // namespace gpt2_trainer
