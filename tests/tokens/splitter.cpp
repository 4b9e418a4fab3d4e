#include "gpt2/tokens/splitter.hpp"

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "../support/catch.hpp"
#include "fixture_vocabulary.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

using pieces = std::vector<std::string>;

pieces split(const std::string& text) {
  pieces found;
  const char* at = text.data();
  for (const char* const end = at + text.size(); at != end;) {
    const char* const next = end_of_piece(at, end);
    found.emplace_back(at, next);
    at = next;
  }
  return found;
}

/// The pattern alternative by alternative, over characters as strings and their classes.
pieces split_by_pattern(const pieces& text, const std::vector<character_class>& classes) {
  const std::size_t end = text.size();
  const auto run = [&](std::size_t at, character_class kind) {
    while (at < end && classes[at] == kind) ++at;
    return at;
  };
  const auto length = [&](std::size_t at) -> std::size_t {
    const auto is = [&](std::size_t place, const char* wanted) {
      return place < end && text[place] == wanted;
    };
    if (is(at, "'")) {
      for (const char* ending : {"s", "d", "m", "t"}) {
        if (is(at + 1, ending)) return 2;
      }
      const std::array<std::array<const char*, 2>, 3> endings = {
          {{"l", "l"}, {"v", "e"}, {"r", "e"}}};
      for (const auto& [first, second] : endings) {
        if (is(at + 1, first) && is(at + 2, second)) return 3;
      }
    }
    const std::size_t begin = is(at, " ") ? at + 1 : at;
    for (const auto kind :
         {character_class::letter, character_class::number, character_class::other}) {
      if (run(begin, kind) > begin) return run(begin, kind) - at;
    }
    const std::size_t spaces = run(at, character_class::space) - at;
    if (at + spaces == end) return spaces;
    return spaces > 1 ? spaces - 1 : 1;
  };
  pieces found;
  for (std::size_t at = 0; at < end;) {
    std::string piece;
    for (const std::size_t next = at + length(at); at < next; ++at) piece += text[at];
    found.push_back(piece);
  }
  return found;
}

}  // namespace

TEST_CASE("splitter: words, numbers and signs take one space before them", "[tokens]") {
  CHECK(split("").empty());
  CHECK(split("Hello world") == pieces{"Hello", " world"});
  CHECK(split("a1 b2") == pieces{"a", "1", " b", "2"});
  CHECK(split("x = 12345;") == pieces{"x", " =", " 12345", ";"});
  CHECK(split("<|endoftext|>") == pieces{"<|", "endoftext", "|>"});
  CHECK(split("\xD0\x94\xD0\xB0 \xE6\x97\xA5\xE6\x9C\xAC\xE3\x80\x82") ==
        pieces{"\xD0\x94\xD0\xB0", " \xE6\x97\xA5\xE6\x9C\xAC", "\xE3\x80\x82"});
}

TEST_CASE("splitter: of white space before a word the last character is left over", "[tokens]") {
  CHECK(split("a  b") == pieces{"a", " ", " b"});
  CHECK(split("a   b") == pieces{"a", "  ", " b"});
  CHECK(split("a\nb") == pieces{"a", "\n", "b"});
  CHECK(split("a\n\nb") == pieces{"a", "\n", "\n", "b"});
  CHECK(split("a\n b") == pieces{"a", "\n", " b"});
  CHECK(split("a \nb") == pieces{"a", " ", "\n", "b"});
  CHECK(split("\t\t\tx") == pieces{"\t\t", "\t", "x"});
  CHECK(split(" x") == pieces{" x"});
}

TEST_CASE("splitter: white space at the end is one piece", "[tokens]") {
  CHECK(split("a ") == pieces{"a", " "});
  CHECK(split("a\n\n") == pieces{"a", "\n\n"});
  CHECK(split("a \t\n ") == pieces{"a", " \t\n "});
  CHECK(split(" ") == pieces{" "});
}

TEST_CASE("splitter: white space is Unicode's, but only a space joins a word", "[tokens]") {
  CHECK(split("a\u2029b") == pieces{"a", "\u2029", "b"});
  CHECK(split("a\u00A0b") == pieces{"a", "\u00A0", "b"});
  CHECK(split("a\u00A0 b") == pieces{"a", "\u00A0", " b"});
  CHECK(split("a \u00A0b") == pieces{"a", " ", "\u00A0", "b"});
  CHECK(split("a\u3000\u3000") == pieces{"a", "\u3000\u3000"});
  CHECK(split("a\u180E b") == pieces{"a", "\u180E", " b"});            // not white space any more
  CHECK(split("a\u200Bb") == pieces{"a", "\u200B", "b"});              // never was
  CHECK(split("e\u0301t\u00E9") == pieces{"e", "\u0301", "t\u00E9"});  // a mark is no letter
}

TEST_CASE("splitter: English endings are pieces where they begin one", "[tokens]") {
  CHECK(split("it's I'll we've you're I'd I'm don't") == pieces{"it", "'s", " I", "'ll", " we",
                                                                "'ve", " you", "'re", " I", "'d",
                                                                " I", "'m", " don", "'t"});
  CHECK(split("IT'S") == pieces{"IT", "'", "S"});
  CHECK(split("a 's") == pieces{"a", " '", "s"});
  CHECK(split("!'s") == pieces{"!'", "s"});
  CHECK(split("'said") == pieces{"'s", "aid"});
  CHECK(split("''s") == pieces{"''", "s"});
  CHECK(split("'l") == pieces{"'", "l"});
  CHECK(split("'v ") == pieces{"'", "v", " "});
  CHECK(split("'") == pieces{"'"});
}

TEST_CASE("splitter: bytes that are not UTF-8 are signs", "[tokens]") {
  CHECK(split("a\xFF\xFE b") == pieces{"a", "\xFF\xFE", " b"});
  CHECK(split("a \xC3") == pieces{"a", " \xC3"});
  CHECK(split("\xC3 \x80") == pieces{"\xC3", " \x80"});
  CHECK(split("a\xC0\xA0"
              "b") == pieces{"a", "\xC0\xA0", "b"});                     // too long for a space
  CHECK(split("a\xED\xA0\x80!b") == pieces{"a", "\xED\xA0\x80!", "b"});  // a surrogate
  CHECK(split("a\xF4\x90\x80\x80") == pieces{"a", "\xF4\x90\x80\x80"});  // beyond Unicode
  CHECK(split("\xE6\x97x\xE6\x97\xA5") == pieces{"\xE6\x97", "x\xE6\x97\xA5"});  // cut short
}

TEST_CASE("splitter: is the pattern on random texts", "[tokens]") {
  const pieces characters = {" ",      " ", " ",      "\n",     "\t",     "'",   "'",      "s",
                             "l",      "v", "e",      "r",      "D",      "1",   "\u00BD", "\u00E9",
                             "\u4E2D", ".", "\u0301", "\u00A0", "\u2029", "\xFF"};
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    pieces text(random() % 12);
    std::vector<character_class> classes;
    std::string joined;
    for (std::string& next : text) {
      next = characters[random() % characters.size()];
      classes.push_back(character_at(next.data(), next.data() + next.size()).kind);
      joined += next;
    }
    REQUIRE(split(joined) == split_by_pattern(text, classes));
  }
}

TEST_CASE("splitter: every code point has the class that tiktoken and tokenizers give it",
          "[tokens]") {
  // As make_character_classes.py prints it.
  std::array<int, 4> counts{};
  std::uint32_t crc = ~0u;
  int wrong = 0;  // read from UTF-8
  for (char32_t code = 0; code < 0x110000; ++code) {
    const auto kind = static_cast<std::size_t>(class_of(code));
    ++counts[kind];
    crc ^= static_cast<std::uint32_t>(kind);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
    std::string text;
    append_utf8(text, code);
    const bool surrogate = code >= 0xD800 && code < 0xE000;
    const character read = character_at(text.data(), text.data() + text.size());
    wrong += read.kind != class_of(code) || read.length != (surrogate ? 1 : text.size());
  }
  CHECK(wrong == 0);
  CHECK(counts[1] == 141028);  // letters
  CHECK(counts[2] == 1911);    // numbers
  CHECK(counts[3] == 25);      // white space
  CHECK(~crc == 0xCEFAB67D);
  CHECK(class_of(0x1C89) == character_class::letter);  // new in Unicode 16
  CHECK(class_of(0xA7CE) == character_class::other);   // new in Unicode 17
}
