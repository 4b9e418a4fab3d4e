#include "gpt2/tokens/vocabulary_files.hpp"

#include "../support/catch.hpp"
#include "vocabulary_support.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;
using nlohmann::json;

namespace {

/// Requires the vocabulary that vocabulary_support.hpp writes.
void check_small(const vocabulary& words, bool has_merges = true) {
  REQUIRE(words.tokens.size() == 260);
  for (int byte = 0; byte < 256; ++byte) {
    CHECK(words.tokens[std::size_t(byte)] == std::string(1, static_cast<char>(byte)));
  }
  CHECK(words.tokens[256] == " t");
  CHECK(words.tokens[257] == "he");
  CHECK(words.tokens[258] == " the");
  CHECK(words.tokens[259] == "<|endoftext|>");
  CHECK(words.end_of_text == 259);
  REQUIRE(words.specials.size() == 1);
  CHECK(words.specials[0].id == 259);
  CHECK(words.specials[0].text == "<|endoftext|>");
  CHECK(merges_text(words) == (has_merges ? "32 116 256\n104 101 257\n256 257 258\n" : ""));
}

/// Base64 with an encoder of the test's own.
std::string base64(const std::string& bytes) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    unsigned bits = 0;
    for (std::size_t i = at; i < at + 3; ++i) {
      bits = bits << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0u);
    }
    for (std::size_t digit = 0; digit < 4; ++digit) {
      text += at + digit <= bytes.size() ? digits[bits >> (18 - 6 * digit) & 63] : '=';
    }
  }
  return text;
}

std::string small_ranks() {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    text += base64(std::string(1, static_cast<char>(byte))) + " " + std::to_string(byte) + "\n";
  }
  for (std::size_t i = 0; i < small_tokens.size(); ++i) {
    text += base64(small_tokens[i]) + " " + std::to_string(256 + i) + "\n";
  }
  return text;
}

/// A file with that text, and what reading it as a vocabulary throws.
class broken_files {
 public:
  std::string error_of(const std::string& text) const {
    const std::filesystem::path path = write_text(folder_ / "words", text);
    const std::string message = message_of([&] { read_vocabulary(path); });
    INFO(message);
    CHECK(message.find(path.string() + ": ") == 0);
    CHECK(message.find('\n') == std::string::npos);
    return message;
  }
  std::string error_of(const json& value) const { return error_of(value.dump()); }

  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

 private:
  temporary_folder folder_;
};

void check_has(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("vocabulary files: each form holds the same", "[vocabulary]") {
  const temporary_folder folder;
  json pairs = small_tokenizer();
  pairs["model"]["merges"] =
      json::array({json::array({"Ġ", "t"}), json::array({"h", "e"}), json::array({"Ġt", "he"})});
  check_small(read_vocabulary(write_text(folder / "a.txt", small_tokenizer().dump())));
  check_small(read_vocabulary(write_text(folder / "b.bin", pairs.dump(2))));

  // The file of merges is found by its name, whichever names the two have.
  write_text(folder / "merges.txt", small_merges);
  check_small(read_vocabulary(write_text(folder / "vocab.json", small_ids().dump())));
  write_text(folder / "merges.txt", "Ġ t\r\nh e\r\nĠt he");  // no version, no end of the last line
  check_small(read_vocabulary(folder / "vocab.json"));
  write_text(folder / "old-vocab.bpe", small_merges);
  check_small(read_vocabulary(write_text(folder / "old-encoder.json", small_ids().dump())));

  const vocabulary ranked = read_vocabulary(write_text(folder / "ranks", small_ranks()));
  check_small(ranked);
  REQUIRE(ranked.notes.size() == 1);
  check_has(ranked.notes[0], "<|endoftext|> is 259");

  check_small(read_vocabulary(write_text(folder / "words", small_tokenizer_bin())), false);
}

TEST_CASE("vocabulary files: what tokenizers wrote reads the same in each form", "[vocabulary]") {
  const std::filesystem::path fixtures = LLMC_TEST_FIXTURES;
  const vocabulary words = read_vocabulary(fixtures / "tokenizer.json");
  CHECK(words.tokens.size() == 357);
  CHECK(words.merges.size() == 100);
  CHECK(words.end_of_text == 356);
  for (const char* name :
       {"tokenizer_pairs.json", "vocab.json", "encoder.json", "ranks.tiktoken"}) {
    INFO(name);
    const vocabulary same = read_vocabulary(fixtures / name);
    CHECK(same.tokens == words.tokens);
    CHECK(merges_text(same) == merges_text(words));
    CHECK(same.end_of_text == words.end_of_text);
  }
  CHECK(read_vocabulary(fixtures).notes.empty());
}

TEST_CASE(
    "vocabulary files: in a folder tokenizer.json comes first, and a note says what disagrees",
    "[vocabulary]") {
  const temporary_folder folder;
  check_has(message_of([&] { read_vocabulary(folder.path()); }),
            "a folder with a vocabulary is wanted (tokenizer.json, ");
  write_text(folder / "gpt2_tokenizer.bin", small_tokenizer_bin());
  check_small(read_vocabulary(folder.path()), false);
  write_text(folder / "vocab.json", small_ids().dump());
  check_has(message_of([&] { read_vocabulary(folder.path()); }),
            "vocab.json: its merges are wanted beside it, in merges.txt");
  write_text(folder / "merges.txt", "h e\nĠ t\nĠt he\n");
  CHECK(merges_text(read_vocabulary(folder.path())).substr(0, 3) == "104");
  write_text(folder / "tokenizer.json", small_tokenizer().dump());
  const vocabulary words = read_vocabulary(folder.path());
  check_small(words);
  REQUIRE(words.notes.size() == 1);  // llm.c's file has no merges that could disagree
  check_has(words.notes[0], "tokenizer.json is taken, which disagrees with " +
                                (folder / "vocab.json").string() + ": other merges");

  json ids = small_ids();
  std::swap(ids["a"], ids["b"]);
  write_text(folder / "vocab.json", ids.dump());
  write_text(folder / "gpt2_tokenizer.bin", "");
  const std::vector<std::string> notes = read_vocabulary(folder.path()).notes;
  REQUIRE(notes.size() == 2);
  check_has(notes[0], R"(token 97 is "a" and not "b")");
  check_has(notes[1], "this one cannot be read: ");
}

TEST_CASE("vocabulary files: settings with which tokenizers would make other tokens are refused",
          "[vocabulary]") {
  const broken_files files;
  struct change {
    const char* place;
    json value;
    const char* message;
  };
  const std::vector<change> changes{
      {"/normalizer", {{"type", "NFC"}}, "normalizer must be null, as GPT-2's is, got an object"},
      {"/pre_tokenizer", nullptr, "pre_tokenizer must be ByteLevel"},
      {"/pre_tokenizer/type", "Whitespace",
       R"(pre_tokenizer.type must be "ByteLevel", as GPT-2's is, got "Whitespace")"},
      {"/pre_tokenizer/add_prefix_space", true, "pre_tokenizer.add_prefix_space must be false"},
      {"/pre_tokenizer/use_regex", false, "pre_tokenizer.use_regex must be true"},
      {"/pre_tokenizer/behavior", "Isolated",
       "pre_tokenizer.behavior is not a setting of GPT-2's tokenizer"},
      {"/post_processor", {{"type", "TemplateProcessing"}}, "post_processor.type must be"},
      {"/decoder", {{"type", "BPEDecoder"}}, R"(decoder.type must be "ByteLevel")"},
      {"/version", "2.0", R"(version must be "1.0")"},
      {"/model/type", "WordPiece", R"(model.type must be "BPE")"},
      {"/model/dropout", 0.1, "model.dropout must be null or 0"},
      {"/model/byte_fallback", true, "model.byte_fallback must be false"},
      {"/model/ignore_merges", true, "model.ignore_merges must be false"},
      {"/model/continuing_subword_prefix", "##", "model.continuing_subword_prefix must be null or"},
      {"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix must be null or"},
      {"/model/new_idea", true, "model.new_idea is not a setting of GPT-2's tokenizer, got true"},
      {"/added_tokens/0/lstrip", true, "added_tokens[0].lstrip must be false"},
      {"/added_tokens/0/rstrip", true, "added_tokens[0].rstrip must be false"},
      {"/added_tokens/0/single_word", true, "added_tokens[0].single_word must be false"},
      {"/added_tokens/0/special", false, "added_tokens[0].special must be true"}};
  for (const change& each : changes) {
    json tokenizer = small_tokenizer();
    tokenizer[json::json_pointer(each.place)] = each.value;
    check_has(files.error_of(tokenizer), each.message);
  }

  json harmless = small_tokenizer();
  harmless["model"].erase("type");  // as old files have it
  harmless["model"]["dropout"] = 0.0;
  harmless["model"]["unk_token"] = "<|endoftext|>";
  harmless["decoder"] = nullptr;
  harmless["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
                                {"special_tokens", json::object()}};
  harmless["truncation"] = {{"max_length", 10}};
  const vocabulary words = read_vocabulary(write_text(files / "harmless", harmless.dump()));
  check_small(words);
  REQUIRE(words.notes.size() == 1);
  check_has(words.notes[0], "its truncation is not applied");
}

TEST_CASE("vocabulary files: tokens and merges that do not fit together are refused",
          "[vocabulary]") {
  const broken_files files;
  const auto error_with = [&](auto change) {
    json tokenizer = small_tokenizer();
    change(tokenizer);
    return files.error_of(tokenizer);
  };
  const auto ids = [](json& t) -> json& { return t["model"]["vocab"]; };
  const auto merges = [](json& t) -> json& { return t["model"]["merges"]; };

  check_has(error_with([&](json& t) { ids(t)["he"] = 256; }), "id 256 must be of one token, got");
  check_has(error_with([&](json& t) { ids(t)["he"] = 300; }),
            R"(the ids of 260 tokens must be 0 to 259, got 300 for "he")");
  for (const json& value : std::vector<json>{-1, 1.5, "7", nullptr, 5000000000}) {
    check_has(error_with([&](json& t) { ids(t)["he"] = value; }),
              R"(the id of "he" must be an integer between 0 and 2147483647, got )" + value.dump());
  }
  check_has(error_with([&](json& t) { ids(t).erase("!"), ids(t)["!!"] = 33; }),
            "each of the 256 bytes must be a token, but byte 33 is none");
  check_has(error_with([&](json& t) { ids(t).erase("!"), ids(t)["€"] = 33; }),
            R"(a token must be of the characters that stand for bytes, got "€")");
  check_has(error_with([&](json& t) { ids(t).erase("!"), ids(t)[""] = 33; }),
            "token 33 must have bytes, got none");
  check_has(error_with([&](json& t) { ids(t) = json::array(); }), "model.vocab must be an object");
  check_has(error_with([&](json& t) { t["model"].erase("vocab"); }), "model.vocab is wanted");
  check_has(error_with([&](json& t) { t["model"].erase("merges"); }), "model.merges is wanted");

  check_has(error_with([&](json& t) { merges(t) = json::array(); }),
            "model.merges must be an array of at least one merge, got []");
  check_has(error_with([&](json& t) { merges(t)[1] = "h"; }),
            R"(model.merges[1]: two tokens with a space between them are wanted, got "h")");
  check_has(error_with([&](json& t) { merges(t)[1] = "h  e"; }), "model.merges[1]: two tokens");
  check_has(error_with([&](json& t) {
              merges(t)[1] = {"h", "e", "e"};
            }),
            "model.merges[1] must be a text or an array of two, got an array");
  check_has(error_with([&](json& t) { merges(t)[1] = 7; }), "model.merges[1] must be a text or");
  check_has(error_with([&](json& t) { merges(t)[1] = "hx e"; }),
            R"(model.merges[1]: what merges must be a token, but "hx" is none)");
  check_has(error_with([&](json& t) { merges(t)[1] = "h h"; }),
            R"(model.merges[1]: what two tokens merge into must be a token, but "hh" is none)");
  check_has(error_with([&](json& t) { merges(t)[1] = "Ġ t"; }), "each merge must be listed once");

  check_has(error_with([](json& t) { t["added_tokens"][0]["id"] = 7; }),
            R"(the id of "<|endoftext|>" must be 259 as in model.vocab, got 7)");
  check_has(error_with([](json& t) { t["added_tokens"][0].erase("special"); }),
            "added_tokens[0].special is wanted, but is missing");
  check_has(error_with([](json& t) { t["added_tokens"][0]["content"] = 1; }),
            "added_tokens[0].content must be a text, got 1");

  // A special token need not be in model.vocab, and is of any characters.
  json more = small_tokenizer();
  more["added_tokens"].push_back({{"id", 260}, {"content", "<a pad €>"}, {"special", true}});
  const vocabulary words = read_vocabulary(write_text(files / "more", more.dump()));
  CHECK(words.tokens.at(260) == "<a pad €>");
  REQUIRE(words.specials.size() == 2);
  CHECK(words.end_of_text == 259);
}

TEST_CASE("vocabulary files: JSON that hides something is refused", "[vocabulary]") {
  const broken_files files;
  check_has(
      files.error_of(std::string(R"({"added_tokens": [], "model": {"vocab": {"a": 1, "a": 2)")),
      R"(different names, got "a" twice in model.vocab)");
  check_has(files.error_of("{\"added_tokens\": " + std::string(100000, '[')),
            "JSON of at most 32 levels is wanted, got more");
  check_has(files.error_of(std::string("{\"a\": 1,}")), "JSON is wanted, got ");
  check_has(files.error_of(std::string("{} {}")), "JSON is wanted, got ");
  check_has(files.error_of(std::string("{\"\xFF\": 1}")), "JSON is wanted, got ");
}

TEST_CASE("vocabulary files: lists of merges name the line that is wrong", "[vocabulary]") {
  const temporary_folder folder;
  const auto error_of = [&](const std::string& merges) {
    write_text(folder / "vocab.json", small_ids().dump());
    write_text(folder / "merges.txt", merges);
    return message_of([&] { read_vocabulary(folder / "vocab.json"); });
  };
  const std::string name = (folder / "merges.txt").string();
  CHECK(error_of("#version: 0.2\n") == name + ": at least one merge is wanted, got none");
  check_has(error_of(""), "at least one merge is wanted");
  check_has(error_of("Ġ t\n\nh e\n"), name + ": line 2: two tokens with a space between them");
  check_has(error_of("Ġ t\n#version: 0.2\n"), name + ": line 2: ");
  check_has(error_of("#version: 0.2\nĠ t\nh\xFF e\n"),
            name + ": line 3: a token must be of the characters that stand for bytes, got \"h");
  check_has(error_of("h e\nhe he"), name + ": line 2: what two tokens merge into must be a token");
  check_has(error_of("h e\nĠ t\nh e"), name + ": line 3: each merge must be listed once");
}

TEST_CASE("vocabulary files: ranks are refused where no merges can be found in them",
          "[vocabulary]") {
  const broken_files files;
  const std::string ranks = small_ranks();
  const std::string line = ": a token in base64, a space and its rank are wanted, got ";
  for (const char* wrong :
       {"aGVs", "aGV 259", "aG=s 259", "aGVsb===  259", "aGVs -1", "aGVs x", "aGVs 1x",
        "aGVs 99999999999999999999", "aGV! 259", "aGVsbB== 259", "", "aGVs  259"}) {
    INFO(wrong);
    check_has(files.error_of(ranks + wrong + "\n"), "line 260" + line);
  }
  const std::string hel = base64("hel") + " ";
  check_has(files.error_of(ranks + hel + "258\n"), "id 258 must be of one token");
  check_has(files.error_of(ranks + hel + "300\n"),
            "line 260: the ranks of 260 tokens must be 0 to 259, got 300");
  check_has(files.error_of(ranks + base64("he") + " 259\n"),
            R"(each token must have one id, got 257 and 259 for "he")");
  check_has(files.error_of(ranks + base64("xyz") + " 259\n"),
            R"(two tokens of lower rank, but "xyz" is made of 3)");
  // Its rank is below that of its half.
  std::string early = ranks;
  early.replace(early.find(base64(" the")), 8, base64("he x").substr(0, 8));
  check_has(files.error_of(early), "is made of 3");
  check_has(files.error_of(ranks.substr(ranks.find('\n') + 1)),
            "line 258: the ranks of 258 tokens must be 0 to 257, got 258");
}

TEST_CASE("vocabulary files: llm.c's tokenizer is refused where its lengths do not hold",
          "[vocabulary]") {
  const broken_files files;
  const std::string good = small_tokenizer_bin();
  check_has(files.error_of(good + "x"), "by its header the file must have ");
  check_has(files.error_of(good.substr(0, good.size() - 1)),
            "length of token 259 must be at most the 12 bytes that the file still has, got 13");
  check_has(files.error_of(good.substr(0, good.size() - 14)),
            "token 259 is wanted, but the file ends before it");
  check_has(files.error_of(good.substr(0, 100)), "got a file of another kind");
  check_has(files.error_of(small_tokenizer_bin(3)), "version must be 2");
  check_has(files.error_of(small_tokenizer_bin(1)), "token that ends a text must be between");
  check_has(files.error_of(small_tokenizer_bin(2, -1)), "number of tokens must be between 1 and");
  check_has(files.error_of(small_tokenizer_bin(2, 1 << 30)), "number of tokens must be between");
  check_has(files.error_of(small_tokenizer_bin(2, 260, 260)), "token that ends a text must be");
  std::string empty = good;
  empty[1024] = 0;
  check_has(files.error_of(empty), "token 0 must have bytes, got none");
}

TEST_CASE("vocabulary files: what is no vocabulary is refused, unread where it is no file",
          "[vocabulary]") {
  const broken_files files;
  check_has(files.error_of(std::string()), "a vocabulary is wanted (tokenizer.json, ");
  check_has(files.error_of(small_merges), "got a file of another kind");
  check_has(files.error_of(std::string(1024, '\0')), "got a file of another kind");
  check_has(message_of([&] { read_vocabulary(files / "nothing"); }), "nothing: cannot open");
  make_fifo(files / "fifo");
  check_has(message_of([&] { read_vocabulary(files / "fifo"); }), "a regular file is wanted");
  const std::filesystem::path large = write_text(files / "large", "{");
  std::filesystem::resize_file(large, (1 << 26) + 1);
  check_has(message_of([&] { read_vocabulary(large); }),
            "size of a vocabulary must be at most 67108864 bytes, got 67108865");
}
