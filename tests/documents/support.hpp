/// @file
/// A tokenizer and shards for tests of documents.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "../trainer/temporary_folder.hpp"
#include "gpt2/data/token_source.hpp"
#include "gpt2/tokens/tokenizer.hpp"

namespace llmc_test {

using token_list = std::vector<std::int32_t>;

/// All bytes, and what stands in `merged`: two tokens that are there already.
inline gpt2_trainer::tokenizer make_tokenizer(
    const std::vector<std::pair<std::string, std::string>>& merged = {{"a", "a"},
                                                                      {"aa", "aa"},
                                                                      {"a", "b"},
                                                                      {" ", " "},
                                                                      {" ", "a"},
                                                                      {"1", "1"},
                                                                      {"\n", "\n"},
                                                                      {"\xC3", "\xA9"},
                                                                      {"'", "s"},
                                                                      {"!", "!"}}) {
  gpt2_trainer::vocabulary words;
  for (int byte = 0; byte < 256; ++byte) words.tokens.emplace_back(1, static_cast<char>(byte));
  const auto id = [&](const std::string& text) {
    std::size_t at = 0;
    while (words.tokens[at] != text) ++at;
    return static_cast<std::int32_t>(at);
  };
  for (const auto& [left, right] : merged) {
    words.merges.push_back({id(left), id(right), static_cast<std::int32_t>(words.tokens.size())});
    words.tokens.push_back(left + right);
  }
  words.end_of_text = static_cast<std::int32_t>(words.tokens.size());
  words.specials = {{"<|endoftext|>", *words.end_of_text}};
  words.tokens.emplace_back("<|endoftext|>");
  return gpt2_trainer::tokenizer(std::move(words));
}

/// The tokens of these documents, with the end of text before each.
inline token_list joined(const gpt2_trainer::tokenizer& words,
                         const std::vector<std::string>& documents) {
  token_list all;
  for (const std::string& document : documents) {
    all.push_back(*words.words().end_of_text);
    words.encode(document, all);
  }
  return all;
}

/// The tokens of shards, as gpt2_train reads them.
inline token_list tokens_in(const std::vector<std::filesystem::path>& shards,
                            std::int64_t vocabulary = 50257) {
  token_list all;
  if (shards.empty()) return all;
  const auto source =
      gpt2_trainer::make_shard_source(shards, vocabulary, gpt2_trainer::shard_reading::whole);
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    token_list tokens(static_cast<std::size_t>(source->shards()[shard]));
    source->read(tokens.data(), shard, 0, source->shards()[shard]);
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

/// The names of what is in the folder, sorted.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace llmc_test
