#include "gpt2/tokens/forms/byte_level.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "gpt2/files/strict_json.hpp"
#include "gpt2/tokens/forms/byte_alphabet.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

std::string bytes_of_token(const input_file& from, const std::string& place,
                           std::string_view token) {
  std::optional<std::string> bytes = bytes_of_alphabet(token);
  if (!bytes) {
    from.fail(place + "a token must be of the characters that stand for bytes, got " +
              shown_token(token));
  }
  return *std::move(bytes);
}

}  // namespace

std::int64_t id_of(const input_file& from, const std::string& token, const json& value) {
  constexpr std::uint64_t most = INT32_MAX;
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) {
    from.fail("the id of " + shown_token(token) + " must be an integer between 0 and " +
              std::to_string(most) + ", got " + shown(value));
  }
  return value.get<std::int64_t>();
}

void add_byte_level_tokens(vocabulary_builder& to, const input_file& from, const json& ids,
                           const std::set<std::string>& specials) {
  for (const auto& [token, value] : ids.items()) {
    const std::int64_t id = id_of(from, token, value);
    if (specials.count(token) > 0) {
      to.add_special(id, token);
    } else {
      to.add(id, bytes_of_token(from, "", token));
    }
  }
}

void add_byte_level_merge(vocabulary_builder& to, const input_file& from, const std::string& place,
                          std::string_view left, std::string_view right) {
  to.add_merge(from, place, bytes_of_token(from, place + ": ", left),
               bytes_of_token(from, place + ": ", right));
}

void add_byte_level_merge(vocabulary_builder& to, const input_file& from, const std::string& place,
                          std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
      line.find(' ', space + 1) != std::string_view::npos) {
    from.fail(place + ": two tokens with a space between them are wanted, got " +
              shown_token(line));
  }
  add_byte_level_merge(to, from, place, line.substr(0, space), line.substr(space + 1));
}

}  // namespace gpt2_trainer
