#include "gpt2/data/data_record.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <thread>

#include "../support/catch.hpp"
#include "gpt2/data/corpus.hpp"
#include "gpt2/data/token_source.hpp"
#include "gpt2/input_error.hpp"
#include "temporary_folder.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

namespace fs = std::filesystem;

data_record record_of(const fs::path& folder) {
  return read_text({folder}).files;
}

std::string refusal(const data_record& wanted, const data_record& seen) {
  return message_of([&] { require_same("data", wanted, seen); });
}

const std::string others = "data: the data must be those of the run that is resumed, but ";

}  // namespace

TEST_CASE("data record: a change of any byte is noticed", "[data_record]") {
  const temporary_folder folder;
  std::string text(600'000, 'x');
  const auto path = write_text(folder / "d/a.txt", text);
  const data_record before = record_of(folder / "d");
  for (const std::size_t at : {0, 7, 8, 4099, 262'143, 262'144, 599'999}) {
    text[at] = 'y';
    write_text(path, text);
    const data_record now = record_of(folder / "d");
    CHECK(refusal(before, now) ==
          others + "a.txt must have checksum " + before[0].checksum + ", got " + now[0].checksum);
    text[at] = 'x';
  }
  write_text(path, text);  // touched, but equal
  CHECK(refusal(before, record_of(folder / "d")).empty());
}

TEST_CASE("data record: the message says which files changed", "[data_record]") {
  const temporary_folder folder;
  const auto d = folder / "d";
  for (const char* name : {"a", "b", "c/d"}) write_text(d / name, std::string("text ") + name);
  const data_record before = record_of(d);

  fs::rename(d, folder / "moved");
  CHECK(refusal(before, record_of(folder / "moved")).empty());
  fs::rename(folder / "moved", d);

  fs::remove(d / "b");
  CHECK(refusal(before, record_of(d)) == others + "b is missing");
  write_text(d / "e", "new");
  CHECK(refusal(before, record_of(d)) == others + "e is new; b is missing");
  write_text(d / "a", "longer text");
  write_text(d / "f", "new");
  CHECK(refusal(before, record_of(d)) ==
        others + "a must have 6 bytes, got 11; e is new; f is new; and 1 more");
  CHECK(refusal({before[0], before[1]}, {before[1], before[0]}) ==
        others + "they are in another order");
  CHECK(refusal({}, before) == others + "a is new; b is new; c/d is new");
}

TEST_CASE("data record: it is kept as JSON", "[data_record]") {
  const data_record record{{"a \"b\"\n", 12, "0123", std::nullopt},
                           {"c", 1, "4567", file_stamp{1, -5, std::int64_t{1} << 62, ~0ull}}};
  const data_record back = data_record_from_json(data_record_to_json(record));
  REQUIRE(back.size() == 2);
  CHECK(back[0].name == record[0].name);
  CHECK_FALSE(back[0].stamp);
  CHECK(back[1].stamp == record[1].stamp);
  CHECK(refusal(record, back).empty());
  for (const char* text : {"", "{", "\"0123456789abcdef\"", "[1]", "[{\"name\":\"a\"}]",
                           "[{\"name\":1,\"bytes\":1,\"checksum\":\"0\"}]",
                           "[{\"name\":\"a\",\"bytes\":1e300,\"checksum\":\"0\"}]"}) {
    INFO(text);
    CHECK_THROWS_AS(data_record_from_json(text), input_error);
  }
}

TEST_CASE("data record: unchanged shards are not read again, changed ones are", "[data_record]") {
  const temporary_folder folder;
  const auto path = write_shard(folder / "a.bin", counting_tokens(1000));
  std::int64_t bytes = -1;
  const auto files = [&](const data_record& known) {
    const auto announce = [&](std::int64_t read) { bytes = read; };
    return make_shard_source({path}, 50257, shard_reading::whole, known, announce)->files();
  };
  // A file that changed just now could change once more within a tick of the clock.
  CHECK_FALSE(files({})[0].stamp);
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  const data_record before = files({});
  REQUIRE(before[0].stamp);

  data_record marked = before;
  marked[0].checksum = "kept";
  CHECK(files(marked)[0].checksum == "kept");
  CHECK(bytes == 0);

  // Another byte, with the old size, inode and time of modification.
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out).seekp(2000) << "x";
  const timespec times[] = {status.st_atim, status.st_mtim};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  CHECK(files(marked)[0].checksum != "kept");
  CHECK(bytes == 3024);
  CHECK_FALSE(refusal(before, files(before)).empty());
}

/// Not a check but a measurement, made only where it is asked for by its tag.
TEST_CASE("data record: gigabytes a second of one core", "[.speed]") {
  const temporary_folder folder;
  constexpr int count = 1 << 28;
  std::vector<std::uint16_t> tokens(count);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::uint16_t>(i % 50000);
  const auto shard = write_shard(folder / "a.bin", tokens);
  const auto text = write_text(folder / "a.txt", std::string(2 * std::size_t{count}, 'x'));
  const auto measure = [](const char* what, auto&& read) {
    for (int i = 0; i < 3; ++i) {
      const std::clock_t begin = std::clock();
      REQUIRE(read() == 1);
      const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
      std::printf("%s: %.2f GB/s\n", what, 2e-9 * count / seconds);
    }
  };
  measure("checksum alone", [&] {
    checksum sum;
    sum.add(tokens.data(), 2 * tokens.size());
    return sum.text().size() / 16;
  });
  measure("token shard",
          [&] { return make_shard_source({shard}, 50257, shard_reading::whole)->files().size(); });
  measure("text", [&] { return read_text({text}).files.size(); });
}
