#include "gpt2/data/text.hpp"

#include <string>
#include <vector>

#include "../support/catch.hpp"

using namespace gpt2_trainer;
using namespace std::string_literals;

TEST_CASE("text: well-formed UTF-8 is accepted", "[text]") {
  for (const std::string& text :
       {""s, "plain\ttext\r\n"s, "\xC2\x80"s, "\xDF\xBF"s, "\xE0\xA0\x80"s, "\xED\x9F\xBF"s,
        "\xEE\x80\x80"s, "\xEF\xBF\xBF"s, "\xF0\x90\x80\x80"s, "\xF4\x8F\xBF\xBF"s,
        "a\xE2\x82\xAC\xF0\x9F\x98\x80z"s}) {
    INFO(text);
    CHECK(valid_text_prefix(text) == text.size());
    CHECK(valid_text_prefix(text + std::string(20, 'x') + text) == 2 * text.size() + 20);
  }
}

TEST_CASE("text: the first byte that is not UTF-8 text is found", "[text]") {
  const std::vector<std::string> wrong{
      "\x80",              // a continuation without a beginning
      "\xC0\x80",          // overlong NUL
      "\xC1\xBF",          // overlong
      "\xE0\x9F\xBF",      // overlong
      "\xED\xA0\x80",      // a surrogate
      "\xF0\x8F\xBF\xBF",  // overlong
      "\xF4\x90\x80\x80",  // past U+10FFFF
      "\xF5\x80\x80\x80",
      "\xFF",
      "\xC2",  // cut short
      "\xE2\x82",
      "\xF0\x9F\x98",
      "\xE2\x82z",  // interrupted
      "\0more"s     // NUL separates documents
  };
  for (const std::string& text : wrong) {
    INFO(text);
    for (std::size_t before = 0; before < 20; ++before) {
      const std::string begin(before, 'x');
      CHECK(valid_text_prefix(begin + text) == before);
      CHECK(valid_text_prefix(begin + text + "many more") == before);
    }
  }
}

TEST_CASE("text: printable text keeps characters and replaces what is none", "[text]") {
  const std::string replaced = "\xEF\xBF\xBD";
  CHECK(printable("a\tb\n\xE2\x82\xAC") == "a\tb\n\xE2\x82\xAC");
  CHECK(printable("a\x1B[2J\x7F") == "a" + replaced + "[2J" + replaced);
  CHECK(printable("\xC2\x9B"
                  "1m") == replaced + "1m");  // a control sequence in one character
  CHECK(printable("x\xE2\x82") == "x" + replaced + replaced);
  CHECK(printable("a\0b"s) == "a\n\nb");
}

TEST_CASE("text: a character that is not whole yet is found at the end", "[text]") {
  for (const std::string& whole : {"z"s, "\xC2\x80"s, "\xE0\xA0\x80"s, "\xF4\x8F\xBF\xBF"s}) {
    for (const std::string& before : {""s, "ab"s, "\xE2\x82\xAC"s, "\xFF"s, "\xE2"s}) {
      for (std::size_t bytes = 1; bytes < whole.size(); ++bytes) {
        CHECK(unfinished_character(before + whole.substr(0, bytes)) == bytes);
      }
      CHECK(unfinished_character(before + whole) == 0);
    }
  }
  for (const std::string& wrong :
       {""s, "\xC0"s, "\xE0\x9F"s, "\xED\xA0"s, "\xF4\x90"s, "\xF5"s, "\xFF"s, "\x80\x80\x80"s}) {
    CHECK(unfinished_character(wrong) == 0);
  }
}
