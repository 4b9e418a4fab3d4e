#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "../support/catch.hpp"
#include "gpt2/documents/text_blocks.hpp"
#include "gpt2/model/random.hpp"
#include "gpt2/tokens/splitter.hpp"
#include "support.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

using strings = std::vector<std::string>;

/// What GPT-2's pattern makes trouble with: white space of all kinds, endings, runs, characters of
/// several bytes, and bytes that are no characters.
const strings parts{"a",
                    "b",
                    "'",
                    "s",
                    "ll",
                    "ve",
                    "1",
                    "7",
                    " ",
                    "  ",
                    "\n",
                    "\r\n",
                    "\t",
                    "!",
                    "-",
                    "'s",
                    "é",
                    "\xE4\xBD\xA0",
                    "Ж",
                    "٣",
                    "…",
                    "😀",
                    "\xC2\xA0",
                    "\xE3\x80\x80",
                    "\xE2\x80\xA8",
                    "\xC2",
                    "\x80",
                    "\xE3\x80",
                    "\xF0\x9F",
                    "\xFF",
                    "\x1C",
                    std::string(1, '\0')};

std::string any_text(std::int64_t seed) {
  random_sequence numbers(seed);
  std::string text;
  for (std::uint64_t count = 1 + numbers.below(24); count > 0; --count) {
    text += parts[numbers.below(parts.size())];
  }
  return text;
}

strings pieces_of(const std::string& text) {
  strings pieces;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    const char* const next = end_of_piece(at, end);
    pieces.emplace_back(at, next);
    at = next;
  }
  return pieces;
}

/// The blocks of a file with this text.
std::vector<text_block> blocks_of(const std::string& text, const document_rules& rules,
                                  const std::string& name = "x.txt") {
  const temporary_folder folder;
  const input_file file(write_text(folder / name, text));
  std::vector<text_block> blocks;
  REQUIRE(read_blocks(file, rules, [&](text_block&& block) {
    blocks.push_back(std::move(block));
    return true;
  }));
  return blocks;
}

/// The documents that the blocks' stretches make; each lies where it says in the file.
strings documents_of(const std::string& text, const document_rules& rules) {
  strings documents;
  for (const text_block& block : blocks_of(text, rules)) {
    for (const text_stretch& stretch : block.stretches) {
      const std::string part = block.bytes.substr(stretch.begin, stretch.size);
      CHECK(part == text.substr(static_cast<std::size_t>(stretch.offset), stretch.size));
      if (stretch.begins_document) documents.emplace_back();
      REQUIRE_FALSE(documents.empty());
      documents.back() += part;
    }
  }
  return documents;
}

document_rules in_blocks(std::size_t bytes, const std::string& separator = "") {
  document_rules rules;
  rules.block_bytes = bytes;
  rules.separator = separator;
  return rules;
}

}  // namespace

TEST_CASE("blocks: where text may be cut, pieces end whatever stands before and after",
          "[documents]") {
  std::size_t cuts = 0;
  for (std::int64_t seed = 0; seed < 20'000; ++seed) {
    const std::string text = any_text(seed);
    const strings whole = pieces_of(text);
    for (std::size_t at = 1; at < text.size(); ++at) {
      if (!may_cut(text, at)) continue;
      ++cuts;
      strings parted = pieces_of(text.substr(0, at));
      const strings rest = pieces_of(text.substr(at));
      parted.insert(parted.end(), rest.begin(), rest.end());
      INFO("seed " << seed << ", at " << at);
      REQUIRE(parted == whole);
    }
  }
  CHECK(cuts > 50'000);
}

TEST_CASE("blocks: there are places to cut in texts of all kinds", "[documents]") {
  const auto may_cut_at = [](const std::string& before, const std::string& after) {
    return may_cut(before + after, before.size());
  };
  CHECK(may_cut_at("word", " next"));
  CHECK(may_cut_at("word", "\nnext"));
  CHECK(may_cut_at("x", "=1;"));
  CHECK(may_cut_at("=", "1;"));
  CHECK(may_cut_at("\xE4\xBD\xA0", "，好"));
  CHECK(may_cut_at("don", "'t"));
  CHECK_FALSE(may_cut_at("don'", "t"));
  CHECK_FALSE(may_cut_at("word ", "next"));
  CHECK_FALSE(may_cut_at("word", "next"));
  CHECK_FALSE(may_cut_at("a ", "\nb"));
  CHECK_FALSE(may_cut_at("\xE3\x80\x80", "\nb"));  // wide white space
  CHECK_FALSE(may_cut_at("a", "\xE4\xBD"));        // the rest may follow
}

TEST_CASE("blocks: a file's documents are the same in blocks of any size", "[documents]") {
  for (std::int64_t seed = 0; seed < 60; ++seed) {
    std::string text;
    strings wanted{""};
    const std::string separator = seed % 2 == 0 ? "\n\n" : "<|end|>";
    for (std::int64_t part = 0; part < 6; ++part) {
      std::string more = any_text(seed * 100 + part);
      for (std::size_t at; (at = more.find('\n')) != std::string::npos;) more.erase(at, 1);
      const bool ends = (seed + part) % 3 == 0;
      text += more + (ends ? separator : "");
      wanted.back() += more;
      if (ends) wanted.emplace_back();
    }
    wanted.erase(std::remove(wanted.begin(), wanted.end(), ""), wanted.end());
    for (const std::size_t bytes : {1, 2, 3, 5, 8, 13, 1000}) {
      INFO("seed " << seed << ", blocks of " << bytes);
      CHECK(documents_of(text, in_blocks(bytes, separator)) == wanted);
      CHECK(documents_of(text, in_blocks(bytes)) == strings{text});
    }
  }
}

TEST_CASE("blocks: separators are found from left to right, empty documents are none",
          "[documents]") {
  const auto bytes = GENERATE(std::size_t{1}, std::size_t{2}, std::size_t{100});
  const auto documents = [&](const std::string& text) {
    return documents_of(text, in_blocks(bytes, "\n\n"));
  };
  CHECK(documents("\n\n\n\none\n\n\ntwo\n\n") == strings{"one", "\ntwo"});
  CHECK(documents("one\n") == strings{"one\n"});
  CHECK(documents("\n\n").empty());
  CHECK(documents("").empty());
}

TEST_CASE("blocks: they are of the wanted size, over many readings of a file", "[documents]") {
  std::string text;
  while (text.size() < 900'000) text += any_text(static_cast<std::int64_t>(text.size())) + " word";
  std::string whole;
  std::int64_t end = 0;
  for (const text_block& block : blocks_of(text, in_blocks(10'000))) {
    CHECK(block.bytes.size() <= 10'000);
    CHECK(block.end >= end);
    end = block.end;
    whole += block.bytes;
  }
  CHECK((whole == text));
  CHECK(end == static_cast<std::int64_t>(text.size()));
}

TEST_CASE("blocks: JSON lines are cut between lines, whose numbers are known", "[documents]") {
  std::string text;
  for (int line = 0; line < 5000; ++line)
    text += std::string(static_cast<std::size_t>(line % 150), 'x') + "\n";
  text += "last";
  const auto bytes = GENERATE(std::size_t{1}, std::size_t{100}, std::size_t{1 << 20});
  std::string whole;
  for (const text_block& block : blocks_of(text, in_blocks(bytes), "x.jsonl")) {
    CHECK(block.first_line == 1 + std::count(whole.begin(), whole.end(), '\n'));
    whole += block.bytes;
    CHECK((block.bytes.empty() || block.bytes.back() == '\n' || whole.size() == text.size()));
  }
  CHECK((whole == text));
}

TEST_CASE("blocks: what cannot be cut is refused past a size, with its place", "[documents]") {
  const temporary_folder folder;
  document_rules rules = in_blocks(100);
  rules.longest_stretch = 1000;
  const auto refusal = [&](const std::string& name, const std::string& text) {
    const input_file file(write_text(folder / name, text));
    return message_of([&] { read_blocks(file, rules, [](text_block&&) { return true; }); });
  };
  const std::string long_word(300'000, 'a');
  CHECK(refusal("x", "some " + long_word) ==
        (folder / "x").string() +
            ": text from byte 4 on, which has no place to cut it, such as white space, must be of "
            "at most 1000 bytes, got 262140 so far");
  CHECK(refusal("x.jsonl", "1\n2\n" + long_word) ==
        (folder / "x.jsonl").string() +
            ": line 3 must be of at most 1000 bytes, got 262140 so far");
  CHECK(refusal("x", "some " + std::string(900, 'a') + " and " + std::string(900, '1')).empty());
}

TEST_CASE("blocks: reading ends when nobody wants more", "[documents]") {
  const temporary_folder folder;
  const input_file file(write_text(folder / "x", "one two three four"));
  int blocks = 0;
  CHECK_FALSE(read_blocks(file, in_blocks(4), [&](text_block&&) { return ++blocks < 2; }));
  CHECK(blocks == 2);
}
