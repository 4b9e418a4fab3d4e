#include "gpt2/documents/tokenize.hpp"

#include <unistd.h>

#include <chrono>
#include <string>

#include "../support/catch.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/model/random.hpp"
#include "support.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

namespace fs = std::filesystem;
using strings = std::vector<std::string>;

struct outcome {
  tokenized all;
  token_list tokens;
};

const tokenizer& words() {
  static const tokenizer made = make_tokenizer();
  return made;
}

outcome run(const std::vector<fs::path>& paths, const document_rules& rules = {}, int threads = 2) {
  const temporary_folder folder;
  shard_options options;
  options.prefix = folder / "x";
  options.shard_tokens = 1000;
  shard_writer writer(options, words().size());
  outcome result{tokenize(find_documents(paths), rules, words(), threads, writer), {}};
  writer.commit();
  result.tokens = tokens_in(writer.training().paths);
  CHECK(result.all.tokens == static_cast<std::int64_t>(result.tokens.size()));
  CHECK(result.all.documents == writer.training().documents);
  return result;
}

std::string refusal(const std::vector<fs::path>& paths, const document_rules& rules = {}) {
  try {
    run(paths, rules);
  } catch (const input_error& error) {
    return error.what();
  }
  return "";
}

document_rules json_rules(bad_line bad = bad_line::refuse) {
  document_rules rules;
  rules.bad = bad;
  return rules;
}

/// Words of a few letters, with what stands between words.
std::string some_text(std::int64_t seed, std::size_t size) {
  random_sequence numbers(seed);
  const strings parts{"a",  "aa",   "ab", "b", " ", " ",  "  ",
                      "\n", "\n\n", "'s", "é", "1", "11", "!"};
  std::string text;
  while (text.size() < size) text += parts[numbers.below(parts.size())];
  return text;
}

}  // namespace

TEST_CASE("tokenize: tokens depend neither on blocks nor on threads", "[documents]") {
  const temporary_folder folder;
  const std::string one = some_text(1, 5000), two = some_text(2, 3000), three = some_text(3, 40);
  write_text(folder / "1.txt", one);
  write_text(folder / "2.txt", two);
  write_text(folder / "3.txt", three);
  const token_list wanted = joined(words(), {one, two, three});
  for (const std::size_t bytes : {1, 7, 100, 1 << 20}) {
    for (const int threads : {1, 2, 5}) {
      document_rules rules;
      rules.block_bytes = bytes;
      INFO("blocks of " << bytes << ", threads: " << threads);
      const outcome result = run({folder.path()}, rules, threads);
      REQUIRE((result.tokens == wanted));
      CHECK(result.all.documents == 3);
      CHECK(result.all.text_bytes ==
            static_cast<std::int64_t>(one.size() + two.size() + three.size()));
    }
  }
}

TEST_CASE("tokenize: special tokens that stand in text are text", "[documents]") {
  const temporary_folder folder;
  const fs::path path = write_text(folder / "x", "one<|endoftext|>two");
  CHECK(run({path}).tokens == joined(words(), {"one<|endoftext|>two"}));
  document_rules rules;
  rules.separator = "<|endoftext|>";
  CHECK(run({path}, rules).tokens == joined(words(), {"one", "two"}));
}

TEST_CASE("tokenize: JSON lines", "[documents]") {
  const temporary_folder folder;
  const fs::path path =
      write_text(folder / "x.jsonl",
                 "{\"text\": \"a\\u00e9\\n\\ud83d\\ude00\", \"more\": {\"text\": [1, 2]}}\r\n\n"
                 "  {\"id\": 3, \"list\": [{\"text\": \"no\"}], \"text\": \"second\"}\n"
                 "{\"text\": \"\"}\n{\"text\": \"last\"}");
  const outcome result = run({path});
  CHECK(result.tokens == joined(words(), {"aé\n😀", "second", "last"}));
  CHECK(result.all.documents == 3);
  const fs::path ndjson = folder / "x.ndjson";
  fs::copy(path, ndjson);
  CHECK(run({ndjson}).tokens == result.tokens);

  document_rules rules;
  rules.json_field = "id";
  const fs::path other = write_text(folder / "x.json", "{\"id\": \"one\"}\n{\"id\": \"two\"}\n");
  rules.form = document_form::json_lines;
  CHECK(run({other}, rules).tokens == joined(words(), {"one", "two"}));
  rules.form = document_form::text;
  CHECK(run({path}, rules).tokens == joined(words(), {read_file(path)}));
}

TEST_CASE("tokenize: a line that is no document is refused with its number, or skipped",
          "[documents]") {
  const temporary_folder folder;
  const auto line_refusal = [&](const std::string& line) {
    std::string good;
    for (int i = 0; i < 9; ++i) good += "{\"text\": \"good\"}\n";
    const fs::path path = write_text(folder / "x.jsonl", good + line + "\n" + good);
    const outcome result = run({path}, json_rules(bad_line::skip));
    CHECK(result.all.documents == 18);
    CHECK(result.all.skipped_lines == 1);
    CHECK(result.tokens == joined(words(), strings(18, "good")));
    document_rules rules = json_rules();
    rules.block_bytes = 20;
    const std::string text = refusal({path}, rules);
    const std::string wanted = path.string() +
                               ": line 10: a JSON object with a string \"text\" is "
                               "wanted, but ";
    CHECK(text.substr(0, wanted.size()) == wanted);
    return text.substr(std::min(wanted.size(), text.size()));
  };
  CHECK(line_refusal("{\"text\": \"open") == "byte 15 of the line cannot be part of one");
  CHECK(line_refusal("{\"text\": \"one\"} {") == "byte 17 of the line cannot be part of one");
  CHECK(line_refusal("{\"text\": \"\xFF\"}") == "byte 11 of the line cannot be part of one");
  CHECK(line_refusal("{\"test\": \"one\"}") == "got an object without it");
  CHECK(line_refusal("{\"text\": null}") == "got null there");
  CHECK(line_refusal("{\"text\": [\"one\"]}") == "got an array there");
  CHECK(line_refusal("{\"text\": {\"text\": \"one\"}}") == "got an object there");
  CHECK(line_refusal("{\"text\": \"one\", \"text\": \"two\"}") == "got it twice");
  CHECK(line_refusal("[\"text\", \"one\"]") == "got an array");
  CHECK(line_refusal("\"text\"") == "got a string");
  CHECK(line_refusal("12") == "got a number");
  CHECK_FALSE(line_refusal(std::string(100'000, '[')).empty());
  CHECK_FALSE(line_refusal("{\"a\": " + std::string(100'000, '[')).empty());
}

TEST_CASE("tokenize: bytes that are no UTF-8 are refused, or tokens as they are", "[documents]") {
  const temporary_folder folder;
  const std::string bytes = "ab \xFF\xFE \xC3";
  const fs::path path = write_text(folder / "x", bytes);
  const fs::path zero = write_text(folder / "zero", std::string("ab\0c", 4));
  CHECK(refusal({path}) == path.string() +
                               ": UTF-8 text is wanted, but byte 3 is none "
                               "(--invalid-utf8 keep takes bytes as they are)");
  CHECK(refusal({zero}).find(": UTF-8 text is wanted, but byte 2 is none") != std::string::npos);
  document_rules keep;
  keep.invalid = invalid_text::keep;
  keep.block_bytes = 2;
  CHECK(run({path}, keep).tokens == joined(words(), {bytes}));
  CHECK(words().decode(words().encode(bytes)) == bytes);

  CHECK(refusal({folder.path()}) ==
        "text is wanted, but there is none; passed over: 2 not UTF-8 text");
  const fs::path good = write_text(folder / "y", "good");
  const outcome result = run({folder.path()});
  CHECK(result.tokens == joined(words(), {"good"}));
  CHECK(result.all.passed_over[pass_over::not_text] == 2);
  CHECK(run({folder.path()}, keep).all.documents == 3);
}

TEST_CASE("tokenize: folders are read by the rules of text to train on", "[documents]") {
  const temporary_folder folder;
  write_text(folder / "b/2.txt", "two");
  write_text(folder / "a.txt", "one");
  write_text(folder / "c.jsonl", "{\"text\": \"three\"}\n");
  write_text(folder / ".hidden", "no");
  write_text(folder / "empty", "");
  make_fifo(folder / "fifo");
  fs::create_directory_symlink(folder / "b", folder / "link");
  const outcome result = run({folder.path()});
  CHECK(result.tokens == joined(words(), {"one", "two", "three"}));
  CHECK(result.all.passed_over.text() == "1 not a regular file, 1 link to a folder");
  REQUIRE(result.all.files.size() == 4);
  CHECK(result.all.files[1].name == "b/2.txt");
  CHECK(result.all.files[1].bytes == 3);
  CHECK_FALSE(result.all.files[1].checksum.empty());

  const temporary_folder other;
  CHECK(refusal({other.path()}) == other.path().string() +
                                       ": a folder with files is wanted, but there is none that "
                                       "is not hidden");
  make_fifo(other / "fifo");
  CHECK(refusal({other.path()}).find("all was passed over: 1 not a regular file") !=
        std::string::npos);
  CHECK(refusal({folder / "a.txt", other / "nothing"}).find("nothing: cannot open") !=
        std::string::npos);
  CHECK(refusal({folder / "empty"}) == "text is wanted, but there is none");
}

TEST_CASE("tokenize: a record notices files that changed, are new or are gone", "[documents]") {
  const temporary_folder folder;
  const fs::path path = write_text(folder / "1.txt", "one");
  write_text(folder / "2.bin", std::string(1, '\0'));
  const auto unchanged = [&](const data_record& record) {
    return are_unchanged(find_documents({folder.path()}), record);
  };
  const data_record fresh = run({folder.path()}).all.files;
  CHECK_FALSE(unchanged(fresh));  // it could still change within its time stamp
  data_record record = fresh;
  for (file_record& file : record) file.stamp = stamp_of(folder / file.name);
  CHECK(unchanged(record));
  const data_record read = data_record_from_json(data_record_to_json(record));
  CHECK(unchanged(read));
  write_text(folder / "3.txt", "new");
  CHECK_FALSE(unchanged(record));
  fs::remove(folder / "3.txt");
  CHECK(unchanged(record));
  write_text(path, "two");
  CHECK_FALSE(unchanged(record));
  fs::remove(path);
  CHECK_FALSE(unchanged(record));
}

TEST_CASE("tokenize: what is read is not replaced", "[documents]") {
  const temporary_folder folder;
  const fs::path shard = write_text(folder / "x_train_000001.bin", "text in a shard's place");
  fs::create_symlink(shard, folder / "text");
  shard_options options;
  options.prefix = folder / "x";
  options.existing = existing_shards::replace;
  for (const fs::path& input : {shard, folder / "text", folder.path()}) {
    shard_writer writer(options, words().size());
    CHECK(message_of([&] {
            tokenize(find_documents({input}), {}, words(), 1, writer);
          }).find(shard.string() + ": a shard must not be one of the files that are read, got ") ==
          0);
  }
  CHECK(read_file(shard) == "text in a shard's place");
}

TEST_CASE("tokenize: it ends early where it is asked to", "[documents]") {
  const temporary_folder folder;
  const fs::path path = write_text(folder / "in/x", some_text(1, 10'000));
  shard_options options;
  options.prefix = folder / "out/x";
  document_rules rules;
  rules.block_bytes = 10;
  std::int64_t last = 0;
  {
    shard_writer writer(options, words().size());
    const tokenized all =
        tokenize(find_documents({path}), rules, words(), 2, writer, [&](std::int64_t done) {
          CHECK(done >= last);
          last = done;
          return done < 5000;
        });
    CHECK(all.stopped);
  }
  CHECK(last >= 5000);
  CHECK(last < 10'000);
  CHECK(names_in(folder.path()) == strings{"in"});
}

TEST_CASE("tokenize: a vocabulary without an end of text or without merges is no use",
          "[documents]") {
  const temporary_folder folder;
  const fs::path path = write_text(folder / "x.txt", "text");
  shard_options options;
  options.prefix = folder / "x";
  const auto with = [&](const std::function<void(vocabulary&)>& change) {
    vocabulary changed = words().words();
    change(changed);
    const tokenizer other(std::move(changed));
    shard_writer writer(options, other.size());
    return message_of([&] { tokenize(find_documents({path}), {}, other, 1, writer); });
  };
  CHECK(with([](vocabulary& v) { v.end_of_text.reset(); }) ==
        "the tokenizer must have an end of text, which goes between documents, got none");
  CHECK_FALSE(with([](vocabulary& v) { v.merges.clear(); }).empty());
  CHECK(names_in(folder.path()) == strings{"x.txt"});
}
