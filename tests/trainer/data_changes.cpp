#include "../support/catch.hpp"
#include "program.hpp"

using namespace llmc_test;

namespace {

namespace fs = std::filesystem;

/// Six steps on these data, and where they are resumed two more.
std::vector<std::string> six_steps(const std::string& data, const std::string& out) {
  return tiny_run({"--data", data, "--steps", "6", "--vocabulary", "300", "--out", out});
}

fs::path write_three_shards(const temporary_folder& folder) {
  fs::create_directory(folder / "d");
  for (const char* name : {"d/a.bin", "d/b.bin", "d/c.bin"}) {
    write_shard(folder / name, std::vector<std::uint16_t>(5000, 7));
  }
  return folder / "d";
}

}  // namespace

TEST_CASE("data: a shard that changed after its first tokens is noticed at resume", "[data]") {
  const temporary_folder folder;
  const fs::path d = write_three_shards(folder);
  const program_result run = run_train(folder.path(), six_steps("d/*.bin", "r"));
  INFO(run.errors);
  REQUIRE(run.status == 0);

  std::vector<std::uint16_t> tokens(5000, 7);
  tokens[4500] = 8;
  write_shard(d / "b.bin", tokens);
  const std::vector<std::string> more{"--resume", "r", "--steps", "8"};
  const program_result refused = run_train(folder.path(), more);
  CHECK(refused.status == 2);
  CHECK(refused.output.empty());
  const std::string wanted =
      "d/*.bin: the data must be those of the run that is resumed, but b.bin must have checksum ";
  INFO(refused.errors);
  CHECK(refused.errors.find(wanted) != std::string::npos);

  // The old bytes in another folder serve as well.
  write_shard(d / "b.bin", std::vector<std::uint16_t>(5000, 7));
  fs::rename(d, folder / "moved");
  const program_result moved = run_train(folder.path(), {"--resume", "r", "--steps", "8", "--data",
                                                         (folder / "moved/*.bin").string()});
  INFO(moved.errors);
  CHECK(moved.status == 0);
}

TEST_CASE("data: what would wait for ever is refused, or passed over in a folder", "[data]") {
  const temporary_folder folder;
  const std::string fifo = make_fifo(folder / "fifo").string();
  const std::string shard = make_fifo(folder / "fifo.bin").string();
  const std::string text = write_text(folder / "d/text", std::string(500, 'x')).string();
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--data", fifo},
                                                    {"--data", shard},
                                                    {"--data", "/dev/zero"},
                                                    {"--data", text, "--val", fifo},
                                                    {"--data", text, "--val", shard}}) {
    const program_result refused = run_train(folder.path(), tiny_run(arguments));
    INFO(arguments.back() << ": " << refused.errors);
    CHECK(refused.status == 2);
    CHECK(refused.errors.find(arguments.back() + ": ") != std::string::npos);
  }
  make_fifo(folder / "d/fifo");
  fs::create_symlink("itself", folder / "d/itself");
  write_text(folder / "d/sparse", "");
  fs::resize_file(folder / "d/sparse", std::uintmax_t{100} << 30);
  const program_result run = run_train(folder.path(), tiny_run({"--data", "d", "--steps", "1"}));
  INFO(run.errors);
  CHECK(run.status == 0);
  CHECK(run.output.find("1 document (passed over: 1 ") != std::string::npos);
  CHECK(run.output.find("1 not readable, 1 not a regular file)") != std::string::npos);
}

TEST_CASE("data: paths may hold any bytes", "[data]") {
  const temporary_folder folder;
  const fs::path odd = folder / "with space\nand \xFF";
  write_text(odd / "a \xFE.txt", std::string(500, 'x'));
  const program_result run =
      run_train(folder.path(), tiny_run({"--data", odd.string(), "--steps", "1"}));
  INFO(run.errors);
  CHECK(run.status == 0);
}
