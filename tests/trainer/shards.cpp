#include <fstream>
#include <limits>

#include "../support/catch.hpp"
#include "gpt2/data/dataset.hpp"
#include "gpt2/data/token_source.hpp"
#include "gpt2/input_error.hpp"
#include "temporary_folder.hpp"
#include "watchdog.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t gpt2_vocabulary = 50257;

using tokens = std::vector<std::int32_t>;

std::unique_ptr<token_source> open(const std::vector<fs::path>& paths,
                                   shard_reading reading = shard_reading::whole,
                                   const data_record& known = {}) {
  return make_shard_source(paths, gpt2_vocabulary, reading, known);
}

std::string refusal(const fs::path& path, std::int64_t vocabulary = gpt2_vocabulary) {
  return message_of([&] { make_shard_source({path}, vocabulary, shard_reading::whole); });
}

/// A shard of 32-bit tokens.
fs::path write_wide_shard(const fs::path& path, const std::vector<std::uint32_t>& values) {
  write_shard(path, {}, 20240801, 7, static_cast<std::int32_t>(values.size()));
  return write_numbers(path, values, true);
}

tokens read(const token_source& source, std::int64_t offset, std::int64_t count,
            std::size_t shard = 0) {
  tokens values(static_cast<std::size_t>(count));
  source.read(values.data(), shard, offset, count);
  return values;
}

/// Overwrites bytes in the middle of a file.
void patch(const fs::path& path, std::int64_t offset, const std::string& bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(offset);
  file << bytes;
}

}  // namespace

TEST_CASE("shards: files that are no shards are refused with what was seen and wanted",
          "[shards]") {
  const temporary_folder folder;
  const auto path = folder / "x.bin";
  const std::string name = path.string() + ": ";
  write_shard(path, {1, 2, 3}, 20240522);
  CHECK(refusal(path) ==
        name + "magic number must be 20240520 (an llm.c token shard), got 20240522");
  write_shard(path, {1, 2, 3}, 20240520, 7);
  CHECK(refusal(path) == name + "version must be 1 (an llm.c token shard), got 7");
  write_shard(path, {1, 2, 3}, 20240520, 1, 4);
  CHECK(refusal(path) == name + "by its header the file must have 1032 bytes, got 1030");
  write_shard(path, {1, 2, 3}, 20240520, 1, 2);
  CHECK(refusal(path) == name + "by its header the file must have 1028 bytes, got 1030");
  write_shard(path, {1, 2, 3}, 20240520, 1, -5);
  write_text(path, "short");
  CHECK(refusal(path) ==
        name + "the file must be an llm.c token shard of at least 1024 bytes, got 5");
  write_shard(path, {1, 2, 50257, 3});
  CHECK(refusal(path) == name + "token 2 must be below the vocabulary of 50257, got 50257");
  write_shard(path, {1, 2, 255, 256});
  CHECK(refusal(path, 256) == name + "token 3 must be below the vocabulary of 256, got 256");
  CHECK(refusal(path, 257).empty());
}

TEST_CASE("shards: a number of tokens below 0 is refused", "[shards]") {
  const temporary_folder folder;
  std::vector<std::int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = -1;
  const auto path = write_numbers(folder / "x.bin", header);
  CHECK(refusal(path) == path.string() + ": number of tokens must be at least 0, got -1");
}

TEST_CASE("shards: tokens of 32 bits are read", "[shards]") {
  const temporary_folder folder;
  const auto path = write_wide_shard(folder / "wide", {1, 100'000, 127'999, 3});
  const auto source = make_shard_source({path}, 128'000, shard_reading::whole);
  CHECK(are_shards({path}));
  CHECK(source->tokens() == 4);
  CHECK(read(*source, 1, 3) == tokens{100'000, 127'999, 3});
  const std::string name = path.string() + ": ";
  CHECK(refusal(path, 127'999) ==
        name + "token 2 must be below the vocabulary of 127999, got 127999");
  write_shard(path, {1, 2}, 20240801, 1);
  CHECK(refusal(path) == name + "version must be 7 (an llm.c token shard of 32 bits), got 1");
  write_wide_shard(path, {1, std::numeric_limits<std::uint32_t>::max()});
  CHECK(refusal(path, 1 << 24) ==
        name + "token 1 must be below the vocabulary of 16777216, got 4294967295");
}

TEST_CASE("shards: tokens of 16 bits cannot be those of a larger vocabulary", "[shards]") {
  const temporary_folder folder;
  const auto path = write_shard(folder / "x.bin", {1, 2, 65535});
  CHECK(refusal(path, 65536).empty());
  CHECK(refusal(path, 65537) ==
        path.string() +
            ": the vocabulary of a model on tokens of 16 bits must be at most 65536, got 65537");
}

TEST_CASE("shards: every token is checked at once, if only for measurements as it is used",
          "[shards]") {
  const temporary_folder folder;
  std::vector<std::uint16_t> values(400'000, 7);  // in several pieces
  for (const std::size_t bad :
       {std::size_t{0}, std::size_t{130'559}, std::size_t{130'560}, std::size_t{399'999}}) {
    values[bad] = 60000;
    const auto path = write_shard(folder / "x.bin", values);
    const std::string wanted = path.string() + ": token " + std::to_string(bad) +
                               " must be below the vocabulary of 50257, got 60000";
    CHECK(refusal(path) == wanted);
    const auto source = open({path}, shard_reading::as_needed);
    CHECK(source->files().empty());
    CHECK(message_of([&] { read(*source, 0, 400'000); }) == wanted);
    values[bad] = 7;
  }
}

TEST_CASE("shards: what is no regular file is refused at once", "[shards]") {
  const watchdog hang;
  const temporary_folder folder;
  const auto fifo = folder / "fifo.bin";
  make_fifo(fifo);
  fs::create_directory(folder / "folder.bin");
  for (const fs::path& path : {fifo, folder / "folder.bin", fs::path("/dev/zero")}) {
    INFO(path);
    CHECK_THROWS_AS(open({path}), input_error);
  }
  make_fifo(folder / "fifo");
  CHECK_THROWS_AS(are_shards({folder / "fifo"}), input_error);
}

TEST_CASE("shards: one that is cut, removed or changed while it is read says so", "[shards]") {
  const auto reading = GENERATE(shard_reading::whole, shard_reading::as_needed);
  const bool second = GENERATE(false, true);
  const temporary_folder folder;
  const auto first = write_shard(folder / "a.bin", counting_tokens(1000));
  const auto path = write_shard(folder / "b.bin", counting_tokens(1000));
  const std::size_t shard = second ? 1 : 0;
  const fs::path changed = second ? path : first;
  const auto source = open({first, path}, reading);
  CHECK(read(*source, 10, 2, 0) == tokens{10, 11});  // the first one stays open
  const auto failure = [&] {
    try {
      read(*source, 10, 2, shard);
    } catch (const input_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string name = changed.string() + ": ";

  fs::rename(changed, folder / "away");
  CHECK(failure() == name + "cannot open: No such file or directory");
  fs::rename(folder / "away", changed);
  CHECK(failure().empty());

  fs::copy(changed, folder / "copy");
  fs::resize_file(changed, 2000);
  CHECK(failure() == name + "size in bytes must be 3024 as when the run began, got 2000");
  CHECK_FALSE(failure().empty());  // not only once
  fs::rename(folder / "copy", changed);
  CHECK(failure().empty());  // another file, but the same bytes

  patch(changed, 2000, "other");
  if (reading == shard_reading::whole) {
    CHECK(failure().find(name + "checksum must be ") == 0);
    CHECK(failure().find(" as when the run began, got ") != std::string::npos);
  }
}

TEST_CASE("shards: places past 2 GiB of a shard are read", "[shards]") {
  const temporary_folder folder;
  const auto path = folder / "large.bin";
  const std::int32_t count = 1'200'000'001;
  write_shard(path, {}, 20240520, 1, count);
  // A sparse file: only its last tokens take space.
  std::filesystem::resize_file(path, 1024 + 2 * (std::uintmax_t{1'200'000'001} - 3));
  write_numbers(path, std::vector<std::uint16_t>{11, 22, 33}, true);

  const auto source = open({path}, shard_reading::as_needed);
  CHECK(source->tokens() == count);
  tokens last(5);
  source->read(last.data(), 0, count - 5, 5);
  CHECK(last == tokens{0, 0, 11, 22, 33});
  batch_loader loader(*source, 1, 1024, token_order::sequential, 1);
  loader.restore({0, 0, loader.windows() - 1});
  tokens inputs(1024), targets(1024);
  loader.next(inputs.data(), targets.data());
  CHECK(targets.back() == 33);
}
