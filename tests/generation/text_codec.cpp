#include "gpt2/generation/text_codec.hpp"

#include "../support/catch.hpp"
#include "../trainer/temporary_folder.hpp"
#include "gpt2/tokens/vocabulary_files.hpp"

using namespace gpt2_trainer;
using llmc_test::message_of;

namespace {

const std::string fixtures = LLMC_TEST_TOKENIZER;

std::string text_of(const text_codec& codec, const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const std::int32_t token : tokens) text += codec.text_of(token);
  return text;
}

}  // namespace

TEST_CASE("text_codec: a tokenizer, named or beside the model", "[text_codec]") {
  const tokenizer words(read_vocabulary(fixtures));
  const std::string text =
      "The text of \xC3\xA9"
      "cole <|endoftext|>\n";
  const text_codec named(fixtures, "", words.size() + 40);
  const text_codec beside("", fixtures, words.size());
  CHECK(named.encode(text) == words.encode(text));
  CHECK(beside.encode(text) == words.encode(text));
  CHECK(text_of(named, named.encode(text)) == text);
  REQUIRE(words.words().end_of_text);
  CHECK(named.end_of_text() == words.words().end_of_text);
  // A model may have tokens that its tokenizer does not name.
  CHECK(named.text_of(static_cast<std::int32_t>(words.size())).empty());
}

TEST_CASE("text_codec: bytes and numbers come before what lies beside the model", "[text_codec]") {
  CHECK(text_codec("bytes", fixtures, 256).encode("a") == std::vector<std::int32_t>{'a'});
  CHECK(text_codec("numbers", fixtures, 1000).encode("7 999") == std::vector<std::int32_t>{7, 999});
}

TEST_CASE("text_codec: what does not suit the model is refused", "[text_codec]") {
  const auto refusal = [](const std::string& name, std::int64_t vocabulary) {
    return message_of([&] { text_codec(name, "", vocabulary); });
  };
  const std::int64_t size = tokenizer(read_vocabulary(fixtures)).size();
  CHECK(refusal(fixtures, size - 1) == fixtures + ": at most the model's " +
                                           std::to_string(size - 1) + " tokens are wanted, got " +
                                           std::to_string(size));
  CHECK(refusal("", 300) == "--tokenizer must say what the 300 tokens of this model are, got none");
  CHECK(refusal("bytes", 300) ==
        "--tokenizer must say what the 300 tokens of this model are, got bytes");
}
