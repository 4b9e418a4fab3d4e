#include "gpt2/tokens/splitter.hpp"

#include <array>
#include <cstdint>

namespace gpt2_trainer {

namespace {

constexpr character_class class_of_ascii(unsigned code) {
  if ((code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z')) return character_class::letter;
  if (code >= '0' && code <= '9') return character_class::number;
  if (code == ' ' || (code >= '\t' && code <= '\r')) return character_class::space;
  return character_class::other;
}

constexpr std::array<character_class, 128> make_ascii_classes() {
  std::array<character_class, 128> classes{};
  for (unsigned code = 0; code < 128; ++code) classes[code] = class_of_ascii(code);
  return classes;
}

constexpr std::array<character_class, 128> ascii_classes = make_ascii_classes();

std::uint8_t byte_at(const char* at) {
  return static_cast<std::uint8_t>(*at);
}

constexpr bool is_ascii(std::uint8_t byte) {
  return byte < 0x80;
}

bool is_continuation(const char* at) {
  return (byte_at(at) & 0xC0) == 0x80;
}

char32_t low_bits(const char* at) {
  return byte_at(at) & 0x3F;
}

character character_beyond_ascii(const char* at, const char* end) {
  constexpr character ill_formed{character_class::other, 1};
  const char32_t first = byte_at(at);
  if (first < 0xC2 || end - at < 2 || !is_continuation(at + 1)) return ill_formed;
  if (first < 0xE0) return {class_of((first & 0x1F) << 6 | low_bits(at + 1)), 2};
  if (end - at < 3 || !is_continuation(at + 2)) return ill_formed;
  if (first < 0xF0) {
    const char32_t code = (first & 0x0F) << 12 | low_bits(at + 1) << 6 | low_bits(at + 2);
    if (code < 0x800 || (code >= 0xD800 && code < 0xE000)) return ill_formed;
    return {class_of(code), 3};
  }
  if (first > 0xF4 || end - at < 4 || !is_continuation(at + 3)) return ill_formed;
  const char32_t code =
      (first & 0x07) << 18 | low_bits(at + 1) << 12 | low_bits(at + 2) << 6 | low_bits(at + 3);
  if (code < 0x10000 || code > 0x10FFFF) return ill_formed;
  return {class_of(code), 4};
}

/// The end of a run of characters of one class.
const char* end_of_run(const char* at, const char* end, character_class kind) {
  while (at != end) {
    const character next = character_at(at, end);
    if (next.kind != kind) break;
    at += next.length;
  }
  return at;
}

/// The end of white space that is a piece, if its first character ends at `next`.
const char* end_of_space(const char* at, const char* next, const char* end) {
  const char* last = at;
  while (next != end) {
    const character character = character_at(next, end);
    if (character.kind != character_class::space) return last == at ? next : last;
    last = next;
    next += character.length;
  }
  return end;
}

/// The length of an ending such as 's or 'll at an apostrophe; 0 if there is none.
std::size_t length_of_ending(const char* at, const char* end) {
  if (end - at < 2) return 0;
  const char first = at[1];
  if (first == 's' || first == 'd' || first == 'm' || first == 't') return 2;
  if (end - at < 3) return 0;
  const char second = at[2];
  if (first == 'l' && second == 'l') return 3;
  return (first == 'v' || first == 'r') && second == 'e' ? 3 : 0;
}

}  // namespace

character character_at(const char* at, const char* end) {
  if (is_ascii(byte_at(at))) return {ascii_classes[byte_at(at)], 1};
  return character_beyond_ascii(at, end);
}

const char* end_of_piece(const char* at, const char* end) {
  if (*at == '\'') {
    if (const std::size_t length = length_of_ending(at, end)) return at + length;
  }
  const character first = character_at(at, end);
  const char* next = at + first.length;
  if (first.kind != character_class::space) return end_of_run(next, end, first.kind);
  if (*at == ' ' && next != end) {
    const character second = character_at(next, end);
    if (second.kind != character_class::space) {
      return end_of_run(next + second.length, end, second.kind);
    }
  }
  return end_of_space(at, next, end);
}

}  // namespace gpt2_trainer
