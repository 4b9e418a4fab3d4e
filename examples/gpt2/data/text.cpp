#include "gpt2/data/text.hpp"

#include <algorithm>
#include <cstring>

namespace gpt2_trainer {
namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// The bytes that the character has with which the text begins, or of which it is the beginning; 0
/// if there is none that is well-formed. The text is not empty. The ranges of the second byte are
/// those of table 3-7 of the Unicode standard.
std::size_t announced_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (text.size() == 1) return length;

  const auto second = static_cast<unsigned char>(text[1]);
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (second < low || second > high) return 0;
  const std::string_view rest = text.substr(2, length - 2);
  return std::all_of(rest.begin(), rest.end(), is_continuation) ? length : 0;
}

/// The bytes of the well-formed character at the beginning of the text, which is not empty; 0 if
/// there is none.
std::size_t character_length(std::string_view text) {
  const std::size_t length = announced_length(text);
  return length <= text.size() ? length : 0;
}

/// The words of 8 bytes at the beginning that are ASCII without NUL, in bytes.
std::size_t ascii_prefix(std::string_view text) {
  std::size_t at = 0;
  for (std::uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    // Taking 1 from each byte sets the high bit of one that is 0.
    constexpr std::uint64_t ones = 0x0101010101010101;
    if (((word | (word - ones)) & (ones << 7)) != 0) break;
  }
  return at;
}

/// Whether well-formed text begins with a control character other than newline and tab.
bool is_control(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first == 0xC2) return static_cast<unsigned char>(text[1]) < 0xA0;
  return (first < ' ' && first != '\n' && first != '\t') || first == 0x7F;
}

}  // namespace

std::size_t valid_text_prefix(std::string_view text) {
  std::size_t at = ascii_prefix(text);
  while (at < text.size() && text[at] != document_separator) {
    const std::size_t length = character_length(text.substr(at));
    if (length == 0) break;
    at += length;
    at += ascii_prefix(text.substr(at));
  }
  return at;
}

std::size_t unfinished_character(std::string_view text) {
  for (std::size_t bytes = 1; bytes < longest_character && bytes <= text.size(); ++bytes) {
    if (announced_length(text.substr(text.size() - bytes)) > bytes) return bytes;
  }
  return 0;
}

std::string printable(std::string_view text) {
  constexpr std::string_view replacement = "\xEF\xBF\xBD";
  std::string result;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (text[0] == document_separator) {
      result += "\n\n";
    } else if (length == 0 || is_control(text)) {
      result += replacement;
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

}  // namespace gpt2_trainer
