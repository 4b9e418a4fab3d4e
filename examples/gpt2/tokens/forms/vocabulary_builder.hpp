/// @file
/// What all files of vocabularies have in common, checked once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "gpt2/files/file.hpp"
#include "gpt2/tokens/vocabulary.hpp"

namespace gpt2_trainer {

inline constexpr const char* end_of_text_name = "<|endoftext|>";

/// A token in a message: its characters in quotes, the beginning if there are many.
std::string shown_token(std::string_view token);

/// Collects the tokens and merges that a file has. What does not fit together is an input_error of
/// that file.
class vocabulary_builder {
 public:
  /// For exactly that many tokens, each of which is then added.
  vocabulary_builder(const input_file& from, std::size_t tokens);

  /// The bytes must not be empty, the id must be new and in [0, tokens).
  void add(std::int64_t id, std::string bytes);
  void add_special(std::int64_t id, std::string text);

  /// The token of these bytes that is not special; -1 if there is none.
  std::int32_t find(std::string_view bytes) const;
  std::string_view bytes_of(std::int32_t id) const {
    return words_.tokens[static_cast<std::size_t>(id)];
  }

  /// The next merge. Both tokens and the one that they make must have been added. `place` begins
  /// messages: "line 7".
  void add_merge(const input_file& merges, const std::string& place, std::string_view left,
                 std::string_view right);
  void add_merge(const token_merge& merge) { words_.merges.push_back(merge); }

  void note(std::string text) { words_.notes.push_back(std::move(text)); }

  /// Requires that each byte is a token.
  vocabulary finish();

 private:
  const input_file& from_;
  vocabulary words_;
  std::vector<bool> is_special_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  ///< by bytes, which `words_` holds
  std::unordered_set<std::uint64_t> pairs_;                 ///< that merge
};

}  // namespace gpt2_trainer
