#include "gpt2/tokens/forms/byte_alphabet.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace gpt2_trainer {
namespace {

constexpr std::size_t bytes = 256;
constexpr std::size_t invisible = 68;  // bytes that stand for no character of their own

constexpr bool is_visible(std::size_t byte) {
  return (byte > ' ' && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
}

struct alphabet {
  std::array<std::uint16_t, bytes> character{};
  std::array<std::int16_t, bytes + invisible> byte{};  ///< -1: the character stands for none
};

constexpr alphabet make_alphabet() {
  alphabet made;
  for (auto& byte : made.byte) byte = -1;
  std::size_t next = bytes;
  for (std::size_t byte = 0; byte < bytes; ++byte) {
    const std::size_t character = is_visible(byte) ? byte : next++;
    made.character[byte] = static_cast<std::uint16_t>(character);
    made.byte[character] = static_cast<std::int16_t>(byte);
  }
  return made;
}

constexpr alphabet of_gpt2 = make_alphabet();
static_assert(of_gpt2.character[' '] == 0x120 && of_gpt2.byte.back() == 0xAD);

constexpr std::size_t none = of_gpt2.byte.size();

/// The first character of the text, which it takes off; `none` if it is not in the alphabet, whose
/// characters have one or two bytes of UTF-8.
std::size_t take_character(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) {
    text.remove_prefix(1);
    return first;
  }
  if (first < 0xC2 || first > 0xDF || text.size() < 2) return none;
  const auto second = static_cast<unsigned char>(text[1]);
  if ((second & 0xC0) != 0x80) return none;
  text.remove_prefix(2);
  return (first & 0x1Fu) << 6 | (second & 0x3Fu);
}

}  // namespace

std::optional<std::string> bytes_of_alphabet(std::string_view characters) {
  std::string result;
  while (!characters.empty()) {
    const std::size_t character = take_character(characters);
    if (character >= none || of_gpt2.byte[character] < 0) return std::nullopt;
    result += static_cast<char>(of_gpt2.byte[character]);
  }
  return result;
}

std::string alphabet_of_bytes(std::string_view text) {
  std::string result;
  for (const char byte : text) {
    const unsigned character = of_gpt2.character[static_cast<unsigned char>(byte)];
    if (character < 0x80) {
      result += static_cast<char>(character);
    } else {
      result += static_cast<char>(0xC0 | character >> 6);
      result += static_cast<char>(0x80 | (character & 0x3F));
    }
  }
  return result;
}

}  // namespace gpt2_trainer
