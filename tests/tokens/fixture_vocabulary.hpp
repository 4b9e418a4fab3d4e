/// @file
/// A vocabulary from what make_fixtures.py wrote, read without gpt2/tokens/vocabulary_files.hpp.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <unordered_map>

#include "gpt2/tokens/vocabulary.hpp"

namespace llmc_test {

inline std::string from_base64(const std::string& text) {
  static const std::string digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<unsigned>(digits.find(c));
    count += 6;
    if (count >= 8) bytes += static_cast<char>(bits >> (count -= 8) & 0xFF);
  }
  return bytes;
}

inline void append_utf8(std::string& to, char32_t code) {
  const auto add = [&](char32_t byte) { to += static_cast<char>(byte); };
  if (code < 0x80) return add(code);
  if (code < 0x800) return add(0xC0 | code >> 6), add(0x80 | (code & 0x3F));
  if (code >= 0x10000) {
    add(0xF0 | code >> 18), add(0x80 | (code >> 12 & 0x3F));
  } else {
    add(0xE0 | code >> 12);
  }
  add(0x80 | (code >> 6 & 0x3F)), add(0x80 | (code & 0x3F));
}

/// Bytes in GPT-2's writing: those that can be seen as they are, the others from U+0100 on.
inline std::string in_letters(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    const auto hidden = [](unsigned b) { return b < 33 || (b > 126 && b < 161) || b == 173; };
    char32_t letter = byte;
    if (hidden(byte)) {
      letter = 256;
      for (unsigned b = 0; b < byte; ++b) letter += hidden(b);
    }
    append_utf8(text, letter);
  }
  return text;
}

/// From `ranks.tiktoken` and `merges.txt` of the folder; end of text comes after all tokens.
inline gpt2_trainer::vocabulary fixture_vocabulary(const std::filesystem::path& folder) {
  gpt2_trainer::vocabulary words;
  std::unordered_map<std::string, std::int32_t> ids;
  std::ifstream ranks(folder / "ranks.tiktoken");
  std::string token;
  for (std::int32_t id = 0; ranks >> token >> id;) {
    words.tokens.push_back(from_base64(token));
    ids.emplace(in_letters(words.tokens.back()), id);
  }
  std::ifstream merges(folder / "merges.txt");
  std::string line;
  std::getline(merges, line);  // the version
  while (std::getline(merges, line)) {
    std::istringstream pair(line);
    std::string left, right;
    pair >> left >> right;
    words.merges.push_back({ids.at(left), ids.at(right), ids.at(left + right)});
  }
  const auto end = static_cast<std::int32_t>(words.tokens.size());
  words.tokens.push_back("<|endoftext|>");
  words.specials.push_back({"<|endoftext|>", end});
  words.end_of_text = end;
  return words;
}

}  // namespace llmc_test
