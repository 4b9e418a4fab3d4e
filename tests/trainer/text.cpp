#include "gpt2/data/text.hpp"

#include <string>

#include "../support/catch.hpp"
#include "gpt2/input_error.hpp"
#include "temporary_folder.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;
using namespace std::string_literals;

namespace {

std::string text_of(const std::filesystem::path& path) {
  return read_text({path}).text;
}

}  // namespace

TEST_CASE("text: well-formed UTF-8 is accepted", "[text]") {
  for (const std::string& text :
       {""s, "plain\ttext\r\n"s, "\xC2\x80"s, "\xDF\xBF"s, "\xE0\xA0\x80"s, "\xED\x9F\xBF"s,
        "\xEE\x80\x80"s, "\xEF\xBF\xBF"s, "\xF0\x90\x80\x80"s, "\xF4\x8F\xBF\xBF"s,
        "a\xE2\x82\xAC\xF0\x9F\x98\x80z"s}) {
    INFO(text);
    CHECK(valid_text_prefix(text) == text.size());
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
    CHECK(valid_text_prefix("ab" + text) == 2);
  }
}

TEST_CASE("text: a file is one document", "[text]") {
  const temporary_folder folder;
  const text_corpus corpus = read_text({write_text(folder / "a.txt", "gr\xC3\xBC\xC3\x9F")});
  CHECK(corpus.text == "\0gr\xC3\xBC\xC3\x9F"s);
  CHECK(corpus.documents == 1);
  CHECK(corpus.skipped == 0);
}

TEST_CASE("text: a folder is read by name, without hidden files and without binary ones",
          "[text]") {
  const temporary_folder folder;
  write_text(folder / "b.txt", "second");
  write_text(folder / "a/z.txt", "first");
  write_text(folder / "c.bin", "\xFF\xFE");
  write_text(folder / "d.dat", "a\0b"s);
  write_text(folder / ".git/config", "hidden");
  write_text(folder / ".hidden", "hidden");
  const text_corpus corpus = read_text({folder.path()});
  CHECK(corpus.text == "\0first\0second"s);
  CHECK(corpus.documents == 2);
  CHECK(corpus.skipped == 2);
}

TEST_CASE("text: what cannot be read says what was wanted", "[text]") {
  const temporary_folder folder;
  const auto binary = write_text(folder / "sub/x.txt", "good\xFF");
  CHECK_THROWS_AS(text_of(binary), input_error);
  CHECK(message_of([&] { text_of(binary); }) ==
        binary.string() + ": UTF-8 text or llm.c's token shards are wanted, but byte 4 is neither");
  CHECK(message_of([&] { text_of(folder.path()); }) ==
        folder.path().string() +
            ": a folder with UTF-8 text files is wanted, but none of 1 files is UTF-8 text "
            "(token shards are named by a pattern, such as '*.bin')");
  CHECK_THROWS_AS(text_of(folder / "missing"), input_error);
}

TEST_CASE("text: the program carries text with it", "[text]") {
  const text_corpus corpus = embedded_text();
  CHECK(corpus.documents > 10);
  CHECK(corpus.text.size() > 50000);
  CHECK(corpus.text.find("#pragma once") != std::string::npos);
  CHECK(corpus.text.find(std::string(9, ' ')) == std::string::npos);
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
