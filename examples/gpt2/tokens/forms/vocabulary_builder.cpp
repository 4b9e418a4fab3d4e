#include "gpt2/tokens/forms/vocabulary_builder.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "gpt2/files/strict_json.hpp"

namespace gpt2_trainer {

std::string shown_token(std::string_view token) {
  return shown(std::string(token));
}

vocabulary_builder::vocabulary_builder(const input_file& from, std::size_t tokens) : from_(from) {
  words_.tokens.resize(tokens);
  is_special_.resize(tokens);
  ids_.reserve(tokens);
}

void vocabulary_builder::add(std::int64_t id, std::string bytes) {
  if (id < 0 || id >= static_cast<std::int64_t>(words_.tokens.size())) {
    from_.fail("the ids of " + std::to_string(words_.tokens.size()) + " tokens must be 0 to " +
               std::to_string(words_.tokens.size() - 1) + ", got " + std::to_string(id) + " for " +
               shown_token(bytes));
  }
  std::string& token = words_.tokens[static_cast<std::size_t>(id)];
  if (bytes.empty()) from_.fail("token " + std::to_string(id) + " must have bytes, got none");
  if (!token.empty()) {
    from_.fail("id " + std::to_string(id) + " must be of one token, got " + shown_token(token) +
               " and " + shown_token(bytes));
  }
  token = std::move(bytes);
  const auto [same, is_new] = ids_.emplace(token, static_cast<std::int32_t>(id));
  if (!is_new) {
    from_.fail("each token must have one id, got " + std::to_string(same->second) + " and " +
               std::to_string(id) + " for " + shown_token(token));
  }
}

void vocabulary_builder::add_special(std::int64_t id, std::string text) {
  add(id, text);
  is_special_[static_cast<std::size_t>(id)] = true;
  words_.specials.push_back({std::move(text), static_cast<std::int32_t>(id)});
}

std::int32_t vocabulary_builder::find(std::string_view bytes) const {
  const auto found = ids_.find(bytes);
  return found == ids_.end() || is_special_[static_cast<std::size_t>(found->second)]
             ? -1
             : found->second;
}

void vocabulary_builder::add_merge(const input_file& merges, const std::string& place,
                                   std::string_view left, std::string_view right) {
  const std::string product = std::string(left).append(right);
  const auto id_of = [&](std::string_view token, const char* what) {
    const std::int32_t id = find(token);
    if (id < 0) {
      merges.fail(place + ": " + what + " must be a token, but " + shown_token(token) +
                  " is none in " + from_.path().string());
    }
    return id;
  };
  const token_merge merge{id_of(left, "what merges"), id_of(right, "what merges"),
                          id_of(product, "what two tokens merge into")};
  const std::uint64_t pair =
      static_cast<std::uint64_t>(merge.left) << 32 | static_cast<std::uint32_t>(merge.right);
  if (!pairs_.insert(pair).second) {
    merges.fail(place + ": each merge must be listed once, got " + shown_token(left) + " and " +
                shown_token(right) + " again");
  }
  words_.merges.push_back(merge);
}

vocabulary vocabulary_builder::finish() {
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    if (find({&text, 1}) >= 0) continue;
    from_.fail("each of the 256 bytes must be a token, but byte " + std::to_string(byte) +
               " is none");
  }
  std::sort(words_.specials.begin(), words_.specials.end(),
            [](const special_token& a, const special_token& b) { return a.id < b.id; });
  for (const special_token& special : words_.specials) {
    if (special.text == end_of_text_name) words_.end_of_text = special.id;
  }
  return std::move(words_);
}

}  // namespace gpt2_trainer
