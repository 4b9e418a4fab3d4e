/// @file
/// Tokens and merges as JSON and lists of merges have them: in characters that stand for bytes.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

#include "gpt2/files/file.hpp"
#include "gpt2/tokens/forms/vocabulary_builder.hpp"

namespace gpt2_trainer {

/// The id that the value is; an input_error if it is no number of a token.
std::int64_t id_of(const input_file& from, const std::string& token, const nlohmann::json& value);

/// Adds all of an object of ids by token. Those named in `specials` stand for themselves.
void add_byte_level_tokens(vocabulary_builder& to, const input_file& from,
                           const nlohmann::json& ids, const std::set<std::string>& specials);

/// Adds a merge of two tokens, or of a line that has both with a space between them.
void add_byte_level_merge(vocabulary_builder& to, const input_file& from, const std::string& place,
                          std::string_view left, std::string_view right);
void add_byte_level_merge(vocabulary_builder& to, const input_file& from, const std::string& place,
                          std::string_view line);

}  // namespace gpt2_trainer
