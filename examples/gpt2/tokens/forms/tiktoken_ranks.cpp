#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpt2/tokens/forms/lines.hpp"
#include "gpt2/tokens/forms/vocabulary_builder.hpp"
#include "gpt2/tokens/forms/vocabulary_readers.hpp"

namespace gpt2_trainer {
namespace {

/// 0 to 63; -1 if the character is no digit.
int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/// The bytes; nothing unless the text is what an encoder writes: whole groups of four, bits that
/// stand for nothing zero.
std::optional<std::string> from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && text[text.size() - 1 - padding] == '=') ++padding;
  text.remove_suffix(padding);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int digit = base64_digit(c);
    if (digit < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count);
    bits &= (1u << count) - 1;
  }
  return bits == 0 ? std::optional(bytes) : std::nullopt;
}

struct ranked_token {
  std::string bytes;
  std::int64_t rank;
  std::string place;
};

std::optional<std::int64_t> rank_in(std::string_view text) {
  std::int64_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && rank >= 0 ? std::optional(rank) : std::nullopt;
}

ranked_token token_in(const input_file& from, std::string_view line, const std::string& place) {
  const std::size_t space = line.find(' ');
  std::optional<std::string> bytes = from_base64(line.substr(0, space));
  const std::optional<std::int64_t> rank =
      space == std::string_view::npos ? std::nullopt : rank_in(line.substr(space + 1));
  if (!bytes || !rank) {
    from.fail(place + ": a token in base64, a space and its rank are wanted, got " +
              shown_token(line));
  }
  return {*std::move(bytes), *rank, place};
}

void require_rank(const input_file& from, const ranked_token& token, std::size_t tokens) {
  if (token.rank < static_cast<std::int64_t>(tokens)) return;
  from.fail(token.place + ": the ranks of " + std::to_string(tokens) + " tokens must be 0 to " +
            std::to_string(tokens - 1) + ", got " + std::to_string(token.rank));
}

/// Files of ranks do not say how text is split, and those of these sizes are for other rules.
struct other_ranks {
  std::size_t tokens;
  const char* name;
};
constexpr std::array known_others{other_ranks{100256, "cl100k_base"},
                                  other_ranks{199998, "o200k_base"},
                                  other_ranks{128000, "Llama 3"}};

void require_no_other(const input_file& from, std::size_t tokens) {
  for (const other_ranks& other : known_others) {
    if (tokens != other.tokens) continue;
    from.fail("ranks for GPT-2's way to split text are wanted, got " + std::to_string(tokens) +
              ", which are those of " + other.name);
  }
}

/// The parts into which tokens of lower rank make these bytes. Of all neighbours that are a token
/// together, those of the lowest rank merge first.
std::vector<std::string_view> parts_of(const vocabulary_builder& builder, std::string_view bytes,
                                       std::int32_t rank) {
  std::vector<std::string_view> parts;
  std::vector<std::int32_t> ranks;  // of each part with the next; that of the whole: none
  const auto rank_at = [&](std::size_t i) {
    const std::int32_t found =
        i + 1 < parts.size()
            ? builder.find({parts[i].data(), parts[i].size() + parts[i + 1].size()})
            : -1;
    return found < 0 ? rank : std::min(found, rank);
  };
  for (std::size_t i = 0; i < bytes.size(); ++i) parts.push_back(bytes.substr(i, 1));
  for (std::size_t i = 0; i < parts.size(); ++i) ranks.push_back(rank_at(i));
  while (true) {
    const auto lowest = std::min_element(ranks.begin(), ranks.end());
    if (*lowest == rank) return parts;
    const auto i = lowest - ranks.begin();
    const auto at = static_cast<std::size_t>(i);
    parts[at] = {parts[at].data(), parts[at].size() + parts[at + 1].size()};
    parts.erase(parts.begin() + i + 1);
    ranks.erase(lowest + 1);
    ranks[at] = rank_at(at);
    if (at > 0) ranks[at - 1] = rank_at(at - 1);
  }
}

}  // namespace

bool are_tiktoken_ranks(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::size_t space = line.find(' ');
  return space != std::string_view::npos && from_base64(line.substr(0, space)) &&
         line.find_first_not_of("0123456789\r", space + 1) == std::string_view::npos;
}

vocabulary read_tiktoken_ranks(const input_file& from, std::string_view text) {
  std::vector<ranked_token> tokens;
  for_each_line(text, [&](std::string_view line, const std::string& place) {
    tokens.push_back(token_in(from, line, place));
  });
  require_no_other(from, tokens.size());
  const std::size_t end_of_text = tokens.size();
  vocabulary_builder builder(from, tokens.size() + 1);
  for (ranked_token& token : tokens) {
    require_rank(from, token, tokens.size());
    builder.add(token.rank, std::move(token.bytes));
  }
  builder.add_special(static_cast<std::int64_t>(end_of_text), end_of_text_name);
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(end_of_text); ++rank) {
    const std::string_view bytes = builder.bytes_of(rank);
    if (bytes.size() == 1) continue;
    const std::vector<std::string_view> parts = parts_of(builder, bytes, rank);
    if (parts.size() != 2) {
      from.fail("the token of rank " + std::to_string(rank) +
                " must be made of two tokens of lower rank, but " + shown_token(bytes) +
                " is made of " + std::to_string(parts.size()));
    }
    builder.add_merge({builder.find(parts[0]), builder.find(parts[1]), rank});
  }
  builder.note(from.path().string() + ": ranks have no special tokens, so " + end_of_text_name +
               " is " + std::to_string(end_of_text) + ", the next id, as it is in GPT-2");
  return builder.finish();
}

}  // namespace gpt2_trainer
