#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../documents/support.hpp"
#include "../support/catch.hpp"
#include "../support/running_program.hpp"
#include "gpt2/documents/shard_writer.hpp"
#include "gpt2/tokens/vocabulary_files.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

namespace fs = std::filesystem;
using strings = std::vector<std::string>;

const fs::path tokenizer_path = LLMC_TEST_TOKENIZER;

const tokenizer& words() {
  static const tokenizer made(read_vocabulary(tokenizer_path));
  return made;
}

strings with_tokenizer(strings arguments) {
  arguments.insert(arguments.begin(), {"--tokenizer", tokenizer_path.string()});
  return arguments;
}

program_result run(const temporary_folder& folder, const strings& arguments) {
  return running_program(GPT2_TOKENIZE, folder.path(), with_tokenizer(arguments)).wait();
}

token_list shards(const temporary_folder& folder, const std::string& prefix) {
  return tokens_in(shards_of(folder / prefix), words().size());
}

/// What the program says in one line, without its name, when it cannot use something; nothing but
/// the inputs is there afterwards.
std::string refusal(const temporary_folder& folder, const strings& arguments) {
  const strings before = names_in(folder.path());
  const program_result result = run(folder, arguments);
  CHECK(result.status == 2);
  CHECK(result.output.empty());
  CHECK(std::count(result.errors.begin(), result.errors.end(), '\n') == 1);
  CHECK(names_in(folder.path()) == before);
  const std::string name = "gpt2_tokenize: ";
  CHECK(result.errors.substr(0, name.size()) == name);
  return result.errors.substr(std::min(name.size(), result.errors.size()));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("gpt2_tokenize: files, folders and JSON lines become shards; one line sums them up",
          "[tokenize]") {
  const temporary_folder folder;
  write_text(folder / "1.txt", "The first document.\n");
  write_text(folder / "texts/2.md", "Another one.");
  write_text(folder / "texts/photo.png", std::string("\x89PNG\0", 5));
  write_text(folder / "3.jsonl", "{\"text\": \"From a line.\"}\n{\"text\": \"And one more.\"}\n");
  const token_list wanted =
      joined(words(), {"The first document.\n", "Another one.", "From a line.", "And one more."});
  for (const std::string threads : {"1", "3"}) {
    const program_result result =
        run(folder, {"1.txt", "texts", "*.jsonl", "--out", "data/x" + threads, "--val-fraction",
                     "0", "--threads", threads});
    INFO(result.errors);
    CHECK(result.status == 0);
    CHECK(result.errors.empty());
    CHECK(shards(folder, "data/x" + threads) == wanted);
    CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
    CHECK(contains(result.output, "data/x" + threads + ": 4 documents, " +
                                      std::to_string(wanted.size()) + " tokens, "));
    CHECK(contains(result.output, "; train 1 shard, "));
    CHECK(contains(result.output, "; val 0 shards, 0 tokens; "));
    CHECK(contains(result.output, " MB/s; passed over: 1 not UTF-8 text\n"));
  }
}

TEST_CASE("gpt2_tokenize: all options of how documents lie in files", "[tokenize]") {
  const temporary_folder folder;
  write_text(folder / "x.txt", "one\n---\ntwo\n---\n");
  write_text(folder / "x.json", "{\"body\": \"three\"}\nno JSON\n{\"body\": \"four\"}\n");
  write_text(folder / "latin", "caf\xE9");
  const auto tokens = [&](const std::string& out, strings arguments) {
    arguments.insert(arguments.end(), {"--out", out, "--val-fraction", "0", "--quiet"});
    const program_result result = run(folder, arguments);
    INFO(result.errors);
    CHECK(result.status == 0);
    return shards(folder, out);
  };
  CHECK(tokens("a", {"x.txt", "--separator", "---\\n"}) == joined(words(), {"one\n", "two\n"}));
  CHECK(tokens("b", {"x.json", "--format", "json-lines", "--json-field", "body", "--bad-lines",
                     "skip"}) == joined(words(), {"three", "four"}));
  CHECK(tokens("c", {"latin", "--invalid-utf8", "keep"}) == joined(words(), {"caf\xE9"}));
  CHECK(tokens("d", {"x.txt", "x.txt", "--token-bits", "32", "--shard-tokens", "5"}) ==
        joined(words(), {"one\n---\ntwo\n---\n", "one\n---\ntwo\n---\n"}));
  CHECK(fs::file_size(folder / "d_train_000001.bin") == 1024 + 5 * 4);
  write_text(folder / "x.txt", "new");
  CHECK(tokens("d", {"x.txt", "--existing", "replace"}) == joined(words(), {"new"}));
  CHECK(shards_of(folder / "d").size() == 1);
}

TEST_CASE("gpt2_tokenize: documents are kept for validation by number and seed", "[tokenize]") {
  const temporary_folder folder;
  std::string lines;
  for (int line = 0; line < 300; ++line) {
    lines += "{\"text\": \"document " + std::to_string(line) + "\"}\n";
  }
  write_text(folder / "x.jsonl", lines);
  const auto kept = [&](const std::string& out, const strings& more) {
    strings arguments{"x.jsonl", "--out", out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    CHECK(run(folder, arguments).status == 0);
    return file_bytes(folder / (out + "_val_000000.bin"));
  };
  const std::string some = kept("a", {"--val-fraction", "0.2"});
  CHECK((kept("b", {"--val-fraction", "0.2", "--threads", "4"}) == some));
  CHECK((kept("c", {"--val-fraction", "0.2", "--seed", "7"}) != some));
  CHECK(some.size() > kept("d", {}).size());

  write_text(folder / "one", "a document");
  const program_result result = run(folder, {"one", "--out", "e"});
  CHECK(result.status == 0);
  CHECK(result.errors ==
        "gpt2_tokenize: none of the documents fell to validation (--val-fraction; --separator says "
        "where documents end)\n");
}

TEST_CASE("gpt2_tokenize: what it cannot use is refused in one line, and nothing is written",
          "[tokenize]") {
  const temporary_folder folder;
  write_text(folder / "x.txt", "text");
  write_text(folder / "bad.jsonl", "{\"text\": \"good\"}\n{\"text\": 5}\n");
  write_text(folder / "latin", "caf\xE9");
  write_text(folder / "empty", "");
  write_text(folder / "old_val_000000.bin", "");
  const auto with = [&](const strings& arguments) { return refusal(folder, arguments); };
  CHECK(contains(with({"--out", "y"}), "inputs is required"));
  CHECK(contains(with({"x.txt"}), "--out is required"));
  CHECK(contains(with({"nothing*", "--out", "y"}), "nothing*: a file, a folder or a pattern"));
  CHECK(contains(with({"bad.jsonl", "--out", "y"}), "bad.jsonl: line 2: a JSON object with a "));
  CHECK(contains(with({"x.txt", "bad.jsonl", "--out", "new/y"}), "\"text\" is wanted, but got a "));
  CHECK(contains(with({"latin", "--out", "y"}), "latin: UTF-8 text is wanted, but byte 3 "));
  CHECK(contains(with({"empty", "--out", "y"}), "text is wanted, but there is none"));
  CHECK(contains(with({"x.txt", "--out", "x.txt/y"}), "--out must lie in a folder"));
  CHECK(contains(with({"x.txt", "--out", "old"}),
                 "old_val_000000.bin: no shard of this name is wanted"));
  CHECK(contains(with({"x.txt", "old_val_000000.bin", "--out", "old", "--existing", "replace"}),
                 "a shard must not be one of the files that are read"));
  CHECK(contains(with({"x.txt", "--out", "y", "--val-fraction", "1.5"}), "--val-fraction"));
  CHECK(contains(with({"x.txt", "--out", "y", "--shard-tokens", "0"}), "--shard-tokens"));
  CHECK(contains(with({"x.txt", "--out", "y", "--token-bits", "64"}),
                 "must be one of auto, 16, 32, got 64"));
  CHECK(contains(with({"x.txt", "--out", "y", "--separator", "\\x"}),
                 "a backslash must be followed by n, r, t or another one, got \\x"));
  CHECK(contains(with({"x.txt", "--out", "y", "--separator", ""}), "must be a text, got none"));
  CHECK(contains(with({"x.txt", "--out", "y", "--seperator", "x"}), "did you mean --separator?"));
  const program_result without =
      running_program(GPT2_TOKENIZE, folder.path(), {"x.txt", "--out", "y", "--tokenizer", "x.txt"})
          .wait();
  CHECK(without.status == 2);
  CHECK(contains(without.errors, "x.txt"));
}

TEST_CASE("gpt2_tokenize: help and version", "[tokenize]") {
  const temporary_folder folder;
  const program_result help = running_program(GPT2_TOKENIZE, folder.path(), {"--help"}).wait();
  CHECK(help.status == 0);
  for (const char* option :
       {"--tokenizer", "--format", "--json-field", "--bad-lines", "--separator", "--invalid-utf8",
        "--out", "--val-fraction", "--seed", "--shard-tokens", "--token-bits", "--existing",
        "--threads", "--quiet"}) {
    CHECK(contains(help.output, option));
  }
  const program_result version =
      running_program(GPT2_TOKENIZE, folder.path(), {"--version"}).wait();
  CHECK(contains(version.output, "gpt2_tokenize of llmc "));
}

TEST_CASE("gpt2_tokenize: a signal ends it and nothing stays", "[tokenize]") {
  const temporary_folder folder;
  {
    std::ofstream large(folder / "x.txt");
    for (int line = 0; line < 3'000'000; ++line) large << "line " << line << " of a long text\n";
  }
  running_program running(GPT2_TOKENIZE, folder.path(),
                          with_tokenizer({"x.txt", "--out", "new/y", "--threads", "1"}));
  REQUIRE(wait_until([&] { return fs::exists(folder / "new"); }));  // it has begun to write
  running.send(SIGINT);
  const program_result result = running.wait();
  CHECK(result.status == 130);
  CHECK(result.output.empty());
  CHECK(contains(result.errors, "gpt2_tokenize: stopping, leaving nothing behind"));
  CHECK(names_in(folder.path()) == strings{"x.txt"});
}

TEST_CASE("gpt2_tokenize: on a terminal it shows how far it is, and takes that back",
          "[tokenize]") {
  const temporary_folder folder;
  write_text(folder / "x.txt", "some text");
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE(::grantpt(terminal) == 0);
  REQUIRE(::unlockpt(terminal) == 0);
  const auto shown = [&](const std::string& more) {
    const std::string command = std::string(GPT2_TOKENIZE) + " --tokenizer " +
                                tokenizer_path.string() + " x.txt --out y --existing replace " +
                                "--val-fraction 0 " + more + " 2>" + ::ptsname(terminal);
    CHECK(running_program("/bin/sh", folder.path(), {"-c", command}).wait().status == 0);
    ::fcntl(terminal, F_SETFL, O_NONBLOCK);
    char text[4096];
    const ssize_t size = ::read(terminal, text, sizeof text);
    return std::string(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  };
  const std::string line = shown("");
  CHECK(line.front() == '\r');
  CHECK(contains(line, "% ["));
  CHECK(contains(line, " MB/s"));
  CHECK(line.substr(line.size() - 4) == "\r\x1B[K");
  CHECK(shown("--quiet").empty());
  ::close(terminal);
}
