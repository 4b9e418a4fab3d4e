#include "gpt2/tokens/tokenizer.hpp"

#include <random>
#include <string>
#include <vector>

#include "../support/catch.hpp"
#include "fixture_vocabulary.hpp"
#include "gpt2/input_error.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;
using Catch::Matchers::Contains;

namespace {

using ids = std::vector<std::int32_t>;

const tokenizer& tiny() {
  static const tokenizer made(fixture_vocabulary(LLMC_TEST_FIXTURES));
  return made;
}

vocabulary only_bytes() {
  vocabulary words;
  for (int byte = 0; byte < 256; ++byte) words.tokens.emplace_back(1, static_cast<char>(byte));
  return words;
}

std::string refusal(const vocabulary& words) {
  try {
    tokenizer made(words);
  } catch (const input_error& error) {
    return error.what();
  }
  return "made";
}

}  // namespace

TEST_CASE("tokenizer: gives the tokens that tokenizers and tiktoken give", "[tokens]") {
  // As both do with tests/tokens/fixtures.
  CHECK(tiny().encode("") == ids{});
  CHECK(tiny().encode("The tokens of a text are the pieces that a model reads.") ==
        ids{51,  257, 308, 265, 258, 346, 83,  288, 259, 307,
            319, 287, 258, 302, 291, 75,  341, 64,  320, 13});
  CHECK(tiny().encode("it's  2025:\n\n    sum += 10000;\n") == ids{72, 83, 311, 220, 298, 314, 20,
                                                                   25, 198, 297, 220, 268, 326, 338,
                                                                   28, 306, 266, 26, 198});
  CHECK(tiny().encode("Gr\u00FC\u00DFe, \u0441\u043B\u043E\u0432\u0430 \u0438 "
                      "\u65E5\u672C\u306E\u8A00\u8449 \U0001F642") ==
        ids{38,  81,  127, 120, 332, 68,  11,  300, 343, 353, 352, 220, 336,
            328, 345, 335, 106, 164, 101, 222, 164, 239, 231, 220, 337, 344});
  CHECK(tiny().encode("<|endoftext|> aaaa") ==
        ids{27, 91, 263, 67, 78, 69, 83, 321, 83, 91, 29, 258, 64, 64, 64});
}

TEST_CASE("tokenizer: appends, and knows its vocabulary", "[tokens]") {
  ids tokens = {1, 2};
  tiny().encode(" the", tokens);
  CHECK(tokens.size() == 3);
  CHECK(tiny().bytes_of(tokens[2]) == " the");
  CHECK(tiny().size() == 357);
  CHECK(tiny().can_encode());
  CHECK(tiny().words().end_of_text == 356);
  CHECK(tiny().bytes_of(356) == "<|endoftext|>");
}

TEST_CASE("tokenizer: special tokens are text unless asked for", "[tokens]") {
  const std::string text = " the<|endoftext|> and<|endoftext|>";
  CHECK(tiny().encode(text).size() > 10);
  CHECK(tiny().decode(tiny().encode(text)) == text);
  const ids the = tiny().encode(" the"), also = tiny().encode(" and");
  REQUIRE(the.size() + also.size() == 2);
  CHECK(tiny().encode_with_specials(text) == ids{the[0], 356, also[0], 356});
  CHECK(tiny().decode(tiny().encode_with_specials(text)) == text);
  CHECK(tiny().encode_with_specials("<|endoftext|") == tiny().encode("<|endoftext|"));
  CHECK(tiny().encode_with_specials("") == ids{});
  // A piece ends where a special token begins, white space, too.
  ids spaces = tiny().encode("  ");
  spaces.push_back(356);
  CHECK(tiny().encode_with_specials("  <|endoftext|>") == spaces);
}

TEST_CASE("tokenizer: of special tokens at one place the longest counts", "[tokens]") {
  vocabulary words = fixture_vocabulary(LLMC_TEST_FIXTURES);
  for (const char* text : {"<a>", "<a><a>", "x<a>"}) {
    words.specials.push_back({text, static_cast<std::int32_t>(words.tokens.size())});
    words.tokens.emplace_back(text);
  }
  const tokenizer made(words);
  CHECK(made.encode_with_specials("<a><a><a>") == ids{358, 357});
  CHECK(made.encode_with_specials("x<a><a>") == ids{359, 357});
}

TEST_CASE("tokenizer: any bytes come back as they were", "[tokens]") {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 200, ' ');
    for (char& c : text)
      c = static_cast<char>(i % 2 == 0 ? random() : " ab'1\n\xC3\xA9"[random() % 8]);
    REQUIRE(tiny().decode(tiny().encode(text)) == text);
    REQUIRE(tiny().decode(tiny().encode_with_specials(text)) == text);
  }
}

TEST_CASE("tokenizer: an id that does not exist is refused", "[tokens]") {
  CHECK_THROWS_WITH(tiny().bytes_of(357), Contains("no token 357, only 357 from 0 on"));
  CHECK_THROWS_AS(tiny().bytes_of(-1), input_error);
  CHECK_THROWS_AS(tiny().decode(ids{0, 357}), input_error);
  CHECK(tiny().decode(ids{}).empty());
}

TEST_CASE("tokenizer: without merges it only decodes", "[tokens]") {
  const tokenizer bytes(only_bytes());
  CHECK(!bytes.can_encode());
  CHECK(bytes.decode(ids{'o', 'k'}) == "ok");
  CHECK_THROWS_AS(bytes.encode("no"), input_error);
  CHECK_THROWS_AS(bytes.encode_with_specials("no"), input_error);
}

TEST_CASE("tokenizer: refuses what is no vocabulary", "[tokens]") {
  vocabulary words = only_bytes();
  CHECK(refusal(words) == "made");
  words.tokens[65] = "AA";
  CHECK_THAT(refusal(words), Contains("no token is the byte 65"));
  words = only_bytes();
  words.tokens.emplace_back("A");
  CHECK_THAT(refusal(words), Contains("tokens 65 and 256 are both the byte 65"));
  words = only_bytes();
  words.tokens.emplace_back("AB");
  words.merges = {{65, 66, 256}, {65, 257, 256}};
  CHECK_THAT(refusal(words), Contains("merge 2 names token 257, wanted one of 257"));
  words.merges = {{-1, 66, 256}};
  CHECK_THAT(refusal(words), Contains("merge 1 names token -1"));
  words.merges = {{65, 67, 256}};
  CHECK_THAT(refusal(words), Contains("merge 1 makes token 256 of 65 and 67"));
  words.merges = {{65, 66, 256}};
  CHECK(refusal(words) == "made");
  words.specials = {{"<end>", 257}};
  CHECK_THAT(refusal(words), Contains("\"<end>\" has id 257"));
  words.specials = {{"<end>", 256}};
  CHECK_THAT(refusal(words), Contains("\"<end>\" has id 256, which is not that token"));
  words.specials.clear();
  words.end_of_text = 256;
  CHECK_THAT(refusal(words), Contains("end of text 256 is not a special token"));
}
