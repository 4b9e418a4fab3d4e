// Which folder a run writes to, and what it does there with what others wrote.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <future>
#include <limits>
#include <map>

#include "../support/catch.hpp"
#include "checkpoint_support.hpp"
#include "gpt2/files/file.hpp"
#include "gpt2/files/folder_lock.hpp"
#include "program.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

namespace fs = std::filesystem;

/// Three steps, a checkpoint after each.
std::vector<std::string> three_steps(const std::string& out) {
  return tiny_run({"--steps", "3", "--warmup", "0", "--checkpoint-every", "1", "--val-every", "0",
                   "--sample-every", "0", "--out", out});
}

/// All names and contents below a folder.
std::map<std::string, std::string> tree(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    files[entry.path().string()] = entry.is_regular_file() ? read_file(entry.path()) : "";
  }
  return files;
}

/// The one line of a refusal that changed nothing.
std::string refusal(const temporary_folder& folder, const std::vector<std::string>& arguments) {
  const auto before = tree(folder.path());
  const program_result result = run_train(folder.path(), arguments);
  INFO(result.errors);
  CHECK(result.status == 2);
  CHECK(result.output.empty());
  CHECK(tree(folder.path()) == before);
  return result.errors;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Changes an option that a state's file holds, and its checksum with it.
void set_option(const fs::path& path, const std::string& name, const nlohmann::json& value) {
  constexpr std::size_t header_size = 24;
  const std::string bytes = read_file(path);
  std::uint32_t description_size = 0;
  std::memcpy(&description_size, bytes.data() + 12, sizeof description_size);
  auto description = nlohmann::json::parse(bytes.substr(header_size, description_size));
  description.at("options").at(name) = value;
  const std::string text = description.dump();
  const std::string moments =
      bytes.substr(header_size + description_size,
                   bytes.size() - header_size - description_size - sizeof(std::uint64_t));
  std::string header = bytes.substr(0, header_size);
  description_size = static_cast<std::uint32_t>(text.size());
  std::memcpy(header.data() + 12, &description_size, sizeof description_size);
  checksum sum;
  sum.add(header.data(), header.size());
  sum.add(text.data(), text.size());
  sum.add(moments.data(), moments.size() / 2);
  sum.add(moments.data() + moments.size() / 2, moments.size() / 2);
  const std::uint64_t end = sum.value();
  write_text(path, header + text + moments + std::string(reinterpret_cast<const char*>(&end), 8));
}

/// A process that has a folder for itself until it is killed.
pid_t owner_of(const fs::path& folder) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    const folder_lock lock(folder);
    if (::write(ends[1], "", 1) == 1) ::pause();
    ::_exit(1);
  }
  char ready = 0;
  REQUIRE(::read(ends[0], &ready, 1) == 1);
  for (const int end : ends) ::close(end);
  return owner;
}

}  // namespace

TEST_CASE("run folder: of runs that begin at once each gets its own", "[folder]") {
  const temporary_folder folder;
  std::vector<std::future<program_result>> runs;
  for (int i = 0; i < 8; ++i) {
    runs.push_back(std::async(std::launch::async, [&] {
      return run_train(folder.path(), tiny_run({"--steps", "2", "--warmup", "0"}));
    }));
  }
  for (auto& each : runs) {
    const program_result result = each.get();
    INFO(result.errors);
    CHECK(result.status == 0);
  }
  CHECK(files_in(folder.path()) == 8);
  for (int number = 1; number <= 8; ++number) {
    const auto own = folder / (number == 1 ? "llmc-run" : "llmc-run-" + std::to_string(number));
    CHECK(files_in(own) == 2);
    CHECK(read_checkpoint(own).state.step == 2);
  }

  // The next one follows the last, and --resume means that.
  fs::remove_all(folder / "llmc-run-3");
  CHECK(run_train(folder.path(), tiny_run({"--steps", "2", "--warmup", "0"})).status == 0);
  CHECK(fs::exists(folder / "llmc-run-9"));
  CHECK(run_train(folder.path(), {"--resume", "--steps", "3"}).status == 0);
  CHECK(read_checkpoint(folder / "llmc-run-9").state.step == 3);
}

TEST_CASE("run folder: one run at a time, and a dead one blocks nothing", "[folder]") {
  const temporary_folder folder;
  fs::create_directory(folder / "r");
  const pid_t owner = owner_of(folder / "r");
  const std::string refused = refusal(folder, three_steps("r"));
  CHECK(contains(refused, (folder / "r").string() + ": a folder that no other run writes to is "));
  CHECK(contains(refused, "got one of host "));
  CHECK(contains(refused, ", process " + std::to_string(owner) + ", since 20"));

  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  CHECK(fs::exists(folder / "r/run.lock"));
  write_text(folder / "r/model_00000001.bin.llmc-01234567.tmp", "of a dead run");
  CHECK(run_train(folder.path(), three_steps("r")).status == 0);
  CHECK(files_in(folder / "r") == 6);  // three pairs
}

TEST_CASE("run folder: a file that happens to have the lock's name is kept", "[folder]") {
  const temporary_folder folder;
  write_text(folder / "r/run.lock", "the user's own");
  CHECK(contains(refusal(folder, three_steps("r")), "run.lock: the lock of a run is wanted"));
  write_text(folder / "far", "the user's own");
  fs::create_directory(folder / "s");
  fs::create_symlink(folder / "far", folder / "s/run.lock");
  CHECK(contains(refusal(folder, three_steps("s")), "run.lock: cannot lock: "));
}

TEST_CASE("run folder: one that is refused or fails leaves none", "[folder]") {
  const temporary_folder folder;
  refusal(folder, tiny_run({"--lr", "nonsense"}));
  const auto skipped = tiny_run({"--lr", "1e30", "--warmup", "0", "--schedule", "constant"});
  run_train(folder.path(), skipped);
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("run folder: no checkpoint of another run is replaced", "[folder]") {
  const temporary_folder folder;
  for (const char* run : {"a", "b"})
    REQUIRE(run_train(folder.path(), three_steps(run)).status == 0);
  const std::string another = "--out must be a folder without checkpoints of another run";
  CHECK(contains(refusal(folder, three_steps("a")), another));
  CHECK(contains(refusal(folder, {"--resume", "a/state_00000002.bin", "--out", "b"}), another));
  fs::create_directory(folder / "c");
  fs::copy(folder / "a/model_00000003.bin", folder / "c");
  CHECK(contains(refusal(folder, {"--resume", "a/state_00000002.bin", "--out", "c"}), another));

  // Nor a later one of the same run: that would be another branch.
  const std::string later = refusal(folder, {"--resume", "a/state_00000002.bin"});
  CHECK(contains(later, "--out must be a folder without checkpoints later than " +
                            (folder / "a/state_00000002.bin").string() + ", got " +
                            (folder / "a").string() + " with one of step 3 ("));
  CHECK(run_train(folder.path(), {"--resume", "a/state_00000002.bin", "--out", "d"}).status == 0);
  CHECK(read_file(folder / "d/model_00000003.bin") == read_file(folder / "a/model_00000003.bin"));
}

TEST_CASE("run folder: a run goes on from its latest whole checkpoint", "[folder]") {
  const temporary_folder folder;
  REQUIRE(run_train(folder.path(), three_steps("r")).status == 0);
  const std::string wanted = read_file(folder / "r/model_00000003.bin");

  // As if killed between two renames that replace step 3.
  fs::copy_file(folder / "r/model_00000002.bin", folder / "r/model_00000003.bin",
                fs::copy_options::overwrite_existing);
  const program_result resumed = run_train(folder.path(), {"--resume", "r"});
  INFO(resumed.errors);
  REQUIRE(resumed.status == 0);
  CHECK(contains(resumed.output, "Passed over " + (folder / "r/model_00000003.bin").string() +
                                     ": checksum of the model must be "));
  CHECK(read_checkpoint(folder / "r").state.step == 3);
  CHECK(read_file(folder / "r/model_00000003.bin") == wanted);
}

TEST_CASE("run folder: a disk that fills costs no earlier checkpoint", "[folder]") {
  const temporary_folder folder;
  REQUIRE(run_train(folder.path(), three_steps("r")).status == 0);
  const auto model_size = static_cast<rlim_t>(fs::file_size(folder / "r/model_00000003.bin"));
  const auto before = tree(folder.path());
  rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &usual) == 0);
  const rlimit small{model_size + 1, usual.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const program_result result = run_train(folder.path(), {"--resume", "r", "--steps", "5"});
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &usual) == 0);
  CHECK(result.status == 1);
  INFO(result.errors);
  CHECK(contains(result.errors, "state_0000000"));
  CHECK(contains(result.errors, ".bin: cannot write: File too large"));
  CHECK(tree(folder.path()) == before);
}

TEST_CASE("run folder: a model that is not finite is refused unless allowed", "[folder]") {
  const temporary_folder folder;
  const auto model = folder / "model.bin";
  REQUIRE(run_train(folder.path(), three_steps("r")).status == 0);
  model_file broken = read_model(folder / "r/model_00000003.bin");
  broken.parameters[5] = std::numeric_limits<float>::quiet_NaN();
  write_model(model, broken);
  const std::vector<std::string> run{"--checkpoint", "model.bin", "-t",    "8", "-b", "2",
                                     "--steps",      "2",         "--out", "n"};
  CHECK(contains(refusal(folder, run),
                 model.string() + ": parameters must be finite, got nan at place 5 (1 of "));
  std::vector<std::string> allowed = run;
  allowed.insert(allowed.end(), {"--non-finite", "allow"});
  CHECK(run_train(folder.path(), allowed).status != 2);
}

TEST_CASE("run folder: options of a state are checked as those of the command line", "[folder]") {
  const temporary_folder folder;
  REQUIRE(run_train(folder.path(), three_steps("r")).status == 0);
  const auto state = folder / "r/state_00000003.bin";
  const std::string whole = read_file(state);
  const std::vector<std::pair<std::string, nlohmann::json>> bad{
      {"batch", 0},         {"batch", 1e300}, {"total-batch", -32}, {"total-batch", 0},
      {"sequence", "many"}, {"steps", 0},     {"lr", -1},           {"order", "backwards"}};
  for (const auto& [name, value] : bad) {
    set_option(state, name, value);
    const std::string refused = refusal(folder, {"--resume", state.string(), "--steps", "4"});
    INFO(refused);
    CHECK(contains(refused, "the saved --" + name + " must be "));
    write_text(state, whole);
  }
  set_option(state, "batch", 2);  // as it was
  CHECK(read_file(state) == whole);
}

TEST_CASE("run folder: what is no file is refused at once", "[folder]") {
  const temporary_folder folder;
  make_fifo(folder / "fifo");
  for (const char* option : {"--data", "--val", "--checkpoint", "--resume"}) {
    const program_result result = run_train(folder.path(), {option, "fifo"});
    CHECK(result.status == 2);
    CHECK(contains(result.errors, "fifo: a regular file is wanted, got a FIFO"));
  }
}
