#include <cstdint>
#include <string>

#include "../support/catch.hpp"
#include "gpt2/documents/shard_writer.hpp"
#include "gpt2/input_error.hpp"
#include "support.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

namespace fs = std::filesystem;
using names = std::vector<std::string>;

shard_options options_of(const fs::path& prefix, std::int64_t shard_tokens = 100) {
  shard_options options;
  options.prefix = prefix;
  options.shard_tokens = shard_tokens;
  return options;
}

/// A document of these tokens.
void add(shard_writer& writer, const token_list& tokens) {
  writer.begin_document();
  writer.add(tokens.data(), tokens.size());
}

token_list counting(std::int32_t begin, std::int32_t end) {
  token_list tokens;
  for (std::int32_t token = begin; token < end; ++token) tokens.push_back(token);
  return tokens;
}

std::string refusal(const shard_options& options, std::int64_t vocabulary = 50257) {
  try {
    const shard_writer writer(options, vocabulary);
  } catch (const input_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("shard writer: documents go on from shard to shard", "[documents]") {
  const temporary_folder folder;
  shard_writer writer(options_of(folder / "made/here/x", 10), 50257);
  add(writer, counting(0, 7));
  add(writer, counting(7, 32));
  add(writer, counting(32, 40));
  writer.commit();
  const written_shards& shards = writer.training();
  CHECK(names_in(folder / "made/here") == names{"x_train_000001.bin", "x_train_000002.bin",
                                                "x_train_000003.bin", "x_train_000004.bin"});
  CHECK(shards.documents == 3);
  CHECK(shards.tokens == 40);
  REQUIRE(shards.paths.size() == 4);
  CHECK(tokens_in(shards.paths) == counting(0, 40));
  CHECK(tokens_in({shards.paths[1]}) == counting(10, 20));
  CHECK(fs::file_size(shards.paths[3]) == 1024 + 10 * 2);
  CHECK(writer.validation().paths.empty());
}

TEST_CASE("shard writer: tokens have 16 bits where the vocabulary allows it", "[documents]") {
  const temporary_folder folder;
  const auto bytes = [&](const std::string& name, token_width width, std::int64_t vocabulary) {
    shard_options options = options_of(folder / name);
    options.width = width;
    shard_writer writer(options, vocabulary);
    const auto last = static_cast<std::int32_t>(vocabulary - 1);
    add(writer, {0, last});
    writer.commit();
    CHECK(tokens_in(writer.training().paths, vocabulary) == token_list{0, last});
    return (fs::file_size(writer.training().paths.front()) - 1024) / 2;
  };
  CHECK(bytes("a", token_width::automatic, 65536) == 2);
  CHECK(bytes("b", token_width::narrow, 65536) == 2);
  CHECK(bytes("c", token_width::automatic, 65537) == 4);
  CHECK(bytes("d", token_width::wide, 256) == 4);
  shard_options narrow = options_of(folder / "e");
  narrow.width = token_width::narrow;
  CHECK(refusal(narrow, 65537) ==
        "tokens of 16 bits must be of a vocabulary of at most 65536, got 65537");
}

TEST_CASE("shard writer: which documents are for validation is a matter of number and seed",
          "[documents]") {
  const auto validating = [](double fraction, std::uint64_t seed) {
    const temporary_folder folder;
    shard_options options = options_of(folder / "x", 1000);
    options.val_fraction = fraction;
    options.seed = seed;
    shard_writer writer(options, 50257);
    for (std::int32_t document = 0; document < 2000; ++document) add(writer, {document});
    writer.commit();
    CHECK(writer.training().documents + writer.validation().documents == 2000);
    token_list all = tokens_in(writer.training().paths);
    const token_list kept = tokens_in(writer.validation().paths);
    CHECK(std::is_sorted(all.begin(), all.end()));
    CHECK(all.front() == 0);
    all.insert(all.end(), kept.begin(), kept.end());
    std::sort(all.begin(), all.end());
    CHECK(all == counting(0, 2000));
    if (!kept.empty()) {
      CHECK(writer.validation().paths.front().filename() == "x_val_000000.bin");
    }
    return kept;
  };
  const token_list some = validating(0.1, 42);
  CHECK(some.size() > 150);
  CHECK(some.size() < 250);
  CHECK(validating(0.1, 42) == some);
  CHECK(validating(0.1, 43) != some);
  CHECK(validating(0, 42).empty());
  CHECK(validating(1, 42).size() == 1999);  // the first one is for training
}

TEST_CASE("shard writer: without commit nothing stays", "[documents]") {
  const temporary_folder folder;
  {
    shard_writer writer(options_of(folder / "new/folder/x", 10), 50257);
    add(writer, counting(0, 25));
    CHECK(names_in(folder / "new/folder").size() == 3);  // under temporary names
    CHECK(shards_of(folder / "new/folder/x").empty());
  }
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("shard writer: shards that are there stay until all new ones are complete",
          "[documents]") {
  const temporary_folder folder;
  shard_options options = options_of(folder / "x", 10);
  {
    shard_writer writer(options, 50257);
    add(writer, counting(0, 25));
    writer.commit();
  }
  write_text(folder / "x_train_1.bin", "another name");
  write_text(folder / "xx_train_000001.bin", "another prefix");
  CHECK(refusal(options) == (folder / "x_train_000001.bin").string() +
                                ": no shard of this name is wanted, but there are 3 (--existing "
                                "replace)");
  options.existing = existing_shards::replace;
  {
    shard_writer writer(options, 50257);
    CHECK(writer.replaced().size() == 3);
    add(writer, counting(100, 115));
    CHECK(tokens_in(shards_of(folder / "x")) == counting(0, 25));
  }
  CHECK(tokens_in(shards_of(folder / "x")) == counting(0, 25));
  shard_writer writer(options, 50257);
  add(writer, counting(100, 115));
  writer.commit();
  CHECK(tokens_in(shards_of(folder / "x")) == counting(100, 115));
  CHECK(names_in(folder.path()) ==
        names{"x_train_000001.bin", "x_train_000002.bin", "x_train_1.bin", "xx_train_000001.bin"});
}

TEST_CASE("shard writer: where nothing can be written is known at once", "[documents]") {
  const temporary_folder folder;
  const fs::path file = write_text(folder / "file", "");
  CHECK(refusal(options_of(file / "x")) ==
        "--out must lie in a folder, but " + file.string() + " is a file");
  CHECK(refusal(options_of(folder / "folder/")) ==
        "--out must end with a name, with which those of the shards begin, got " +
            (folder / "folder/").string());
  CHECK(names_in(folder.path()) == names{"file"});
}
