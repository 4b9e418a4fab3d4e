#include "gpt2/generation/text_stream.hpp"

#include <vector>

#include "../support/catch.hpp"

using gpt2_trainer::text_stream;

namespace {

using pieces = std::vector<std::string>;

/// What comes out of each piece, and at the end.
pieces passed(text_stream stream, const pieces& in) {
  pieces out;
  for (const std::string& each : in) out.push_back(stream.add(each));
  out.push_back(stream.finish());
  return out;
}

}  // namespace

TEST_CASE("text stream: a character is passed on when it is whole", "[text stream]") {
  CHECK(passed(text_stream(), {"a\xE2", "\x82", "\xAC", "b"}) ==
        pieces{"a", "", "\xE2\x82\xAC", "b", ""});
  CHECK(passed(text_stream(), {"\xE2\x82"}) == pieces{"", "\xE2\x82"});
  CHECK(passed(text_stream(), {"\xF0\x9F", "z"}) == pieces{"", "\xF0\x9Fz", ""});
  CHECK(passed(text_stream(), {"\x80", "\xFF"}) == pieces{"\x80", "\xFF", ""});
}

TEST_CASE("text stream: nothing is passed on from the stop text on", "[text stream]") {
  CHECK(passed(text_stream("END"), {"aE", "NENx", "D", "END", "more"}) ==
        pieces{"a", "ENENx", "D", "", "", ""});
  CHECK(passed(text_stream("aab"), {"aaa", "ab", "c"}) == pieces{"a", "a", "", ""});
  CHECK(passed(text_stream("END"), {"aEN"}) == pieces{"a", "EN"});
  CHECK(passed(text_stream("\n"), {"one\ntwo"}) == pieces{"one", ""});
  // A stop text that begins inside a character.
  CHECK(passed(text_stream("\x82X"), {"\xE2\x82", "\xAC"}) == pieces{"", "\xE2\x82\xAC", ""});
}

TEST_CASE("text stream: the same text comes out however it is cut", "[text stream]") {
  const std::string text = "ab\xE2\x82\xAC\xF0\x9F\x98\x80 abc abd \xFFz";
  for (const std::string stop : {"", "abd", "ab\xE2", "\x98", "never"}) {
    const std::string wanted = text.substr(0, stop.empty() ? text.npos : text.find(stop));
    for (std::size_t i = 0; i <= text.size(); ++i) {
      for (std::size_t j = i; j <= text.size(); ++j) {
        text_stream stream(stop);
        std::string all;
        for (const std::string& piece : {text.substr(0, i), text.substr(i, j - i), text.substr(j)})
          all += stream.add(piece);
        all += stream.finish();
        REQUIRE(all == wanted);
      }
    }
  }
}
