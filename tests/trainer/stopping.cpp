#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "../support/catch.hpp"
#include "gpt2/files/model_file.hpp"
#include "gpt2/model/parameters.hpp"
#include "program.hpp"

using namespace llmc_test;

namespace {

namespace fs = std::filesystem;

std::string bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Runs whose steps do not depend on how many there are.
std::vector<std::string> plain_run(const std::vector<std::string>& more) {
  return tiny_run(
             {"--lr", "0.01", "--schedule", "constant", "--warmup", "0", "--sample-every", "0"}) +
         more;
}

std::vector<std::string> endless_run(const std::vector<std::string>& more = {}) {
  return plain_run({"--steps", "100000000", "--out", "run", "--log", "log"}) + more;
}

bool has_steps(const temporary_folder& folder, std::size_t steps) {
  return wait_until([&] { return log_lines(folder / "log", "loss").size() >= steps; });
}

std::int64_t last_saved(const temporary_folder& folder) {
  return log_lines(folder / "log", "model").back().at("step");
}

/// Whether the run goes on to the same bits as one that nobody stopped.
void check_that_nothing_is_lost(const temporary_folder& folder,
                                const std::vector<std::string>& data = {}) {
  const std::string steps = std::to_string(last_saved(folder) + 3);
  const program_result resumed =
      run_train(folder.path(), {"--resume", "run", "--steps", steps, "--log", "resumed"});
  INFO(resumed.errors);
  REQUIRE(resumed.status == 0);
  REQUIRE(log_lines(folder / "resumed", "loss").size() == 3);
  REQUIRE(
      run_train(folder.path(),
                plain_run({"--steps", steps, "--out", "straight", "--log", "straight.log"}) + data)
          .status == 0);
  const fs::path model = log_lines(folder / "resumed", "model").back().at("model").get<fs::path>();
  const bool same = bytes(model) == bytes(folder / "straight" / model.filename());
  CHECK(same);
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

/// For as long as it lives, this process, and those that it starts, ignore a signal.
class ignored_signal {
 public:
  explicit ignored_signal(int signal) : signal_(signal), before_(::signal(signal, SIG_IGN)) {}
  ~ignored_signal() { ::signal(signal_, before_); }

 private:
  int signal_;
  void (*before_)(int);
};

}  // namespace

TEST_CASE("stopping: a signal leaves a checkpoint and loses nothing", "[stopping]") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP);
  const temporary_folder folder;
  running_train running(folder.path(), endless_run());
  REQUIRE(has_steps(folder, 3));
  running.send(signal);
  const program_result stopped = running.wait();
  CHECK(stopped.status == 128 + signal);
  CHECK(log_lines(folder / "log", "loss").back().at("step") == last_saved(folder));
  if (signal != SIGHUP) contains(stopped.errors, "gpt2_train: stopping, writing a checkpoint");
  check_that_nothing_is_lost(folder);
}

TEST_CASE("stopping: a reader that goes away leaves a checkpoint", "[stopping]") {
  const temporary_folder folder;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  running_train running(folder.path(), endless_run(), ends[1]);
  ::close(ends[1]);
  REQUIRE(has_steps(folder, 3));
  ::close(ends[0]);
  CHECK(running.wait().status == 128 + SIGPIPE);
  check_that_nothing_is_lost(folder);
}

TEST_CASE("stopping: the second signal is answered, the third one ends at once", "[stopping]") {
  const temporary_folder folder;
  // A step of many seconds.
  running_train running(folder.path(), plain_run({"--total-batch", "1600000", "--steps", "2",
                                                  "--out", "run", "--log", "log"}));
  REQUIRE(wait_until([&] { return running.output().find(" loss ") != std::string::npos; }));
  for (const char* answer : {"gpt2_train: stopping, writing a checkpoint",
                             "gpt2_train: still writing a checkpoint; once more ends it at once"}) {
    running.send(SIGINT);
    CHECK(wait_until([&] { return running.errors().find(answer) != std::string::npos; }));
  }
  running.send(SIGINT);
  CHECK(running.wait().status == 128 + SIGINT);
  CHECK(log_lines(folder / "log", "model").empty());
}

TEST_CASE("stopping: a benchmark, which saves nothing, ends at once", "[stopping]") {
  const temporary_folder folder;
  // A step of hours, which would have to be awaited.
  running_train running(folder.path(),
                        {"--layers", "1", "--heads", "2", "--channels", "8", "--context", "8", "-b",
                         "2", "--total-batch", "1073741824", "--benchmark", "1", "--log", "log"});
  REQUIRE(wait_until([&] { return !log_lines(folder / "log", "memory_bytes").empty(); }));
  running.send(SIGINT);
  CHECK(running.wait().status == 128 + SIGINT);
}

TEST_CASE("stopping: a signal that is ignored at the start stays ignored", "[stopping]") {
  const temporary_folder folder;
  const ignored_signal as_nohup_does(SIGHUP);
  running_train running(folder.path(), endless_run());
  REQUIRE(has_steps(folder, 3));
  running.send(SIGHUP);
  REQUIRE(has_steps(folder, log_lines(folder / "log", "loss").size() + 100));
  running.send(SIGTERM);
  CHECK(running.wait().status == 128 + SIGTERM);
}

TEST_CASE("stopping: the checkpoint comes before validation, which a signal ends", "[stopping]") {
  const temporary_folder folder;
  write_text(folder / "text", std::string(4'000'000, 'x'));
  running_train running(
      folder.path(),
      {"--layers", "1", "--heads", "2",    "--channels",     "8",   "--context",     "8",
       "-b",       "2", "--data",  "text", "--val-fraction", "0.5", "--val-batches", "0",
       "--steps",  "1", "--out",   "run",  "--log",          "log"});
  REQUIRE(wait_until([&] { return !log_lines(folder / "log", "model").empty(); }));
  running.send(SIGTERM);
  const program_result stopped = running.wait();
  CHECK(stopped.status == 128 + SIGTERM);
  CHECK(log_lines(folder / "log", "validation_loss").empty());
  contains(stopped.output, "step 1: gave up the validation after ");
  contains(stopped.output, " of 125000 batches");
  contains(stopped.output, "step 1: gave up the sample");
  CHECK(fs::exists(folder / "run/state_00000001.bin"));
}

TEST_CASE("stopping: checkpoints by time lose nothing, and replace each other", "[stopping]") {
  const temporary_folder folder;
  // So short a time that it is over at each step, however fast steps are here.
  running_train running(folder.path(),
                        endless_run({"--checkpoint-minutes", "1e-9", "--checkpoint-every", "40"}));
  REQUIRE(wait_until([&] {
    const auto saved = log_lines(folder / "log", "model");
    return saved.size() >= 45 && saved.back().at("step").get<int>() % 40 != 0;
  }));
  running.send(SIGKILL);
  CHECK(running.wait().status == 128 + SIGKILL);
  const std::int64_t last = last_saved(folder);
  int others = 0;
  for (const auto& entry : fs::directory_iterator(folder / "run")) {
    std::int64_t step = 0;
    const std::string name = entry.path().filename().string();
    if (std::sscanf(name.c_str(), "state_%ld.bin", &step) != 1) continue;
    if (step % 40 != 0 && step < last) ++others;
  }
  CHECK(others <= 1);  // it may have been about to go
  CHECK(fs::exists(folder / "run/state_00000040.bin"));
  check_that_nothing_is_lost(folder);
}

TEST_CASE("stopping: data that fail in the middle leave a checkpoint", "[stopping]") {
  const temporary_folder folder;
  const std::vector<std::uint16_t> tokens = counting_tokens(60);
  std::vector<std::uint16_t> many;
  for (int i = 0; i < 100; ++i) many.insert(many.end(), tokens.begin(), tokens.end());
  const auto shard = [&](const char* name) { write_shard(folder / name, many); };
  shard("a.bin");
  shard("val.bin");
  const std::string broken = GENERATE("a.bin", "val.bin");
  // Many micro-batches, so that it is most likely within a step that the data end.
  const std::vector<std::string> data{"--data",        "a.bin", "--val",       "val.bin",
                                      "--vocabulary",  "60",    "--val-every", "10",
                                      "--total-batch", "320"};
  running_train running(folder.path(), endless_run(data));
  REQUIRE(has_steps(folder, 3));
  fs::resize_file(folder / broken, 1024);
  const program_result failed = running.wait();
  CHECK(failed.status == 1);
  contains(failed.errors, broken + ": ");
  CHECK(log_lines(folder / "log", "loss").back().at("step") == last_saved(folder));
  shard(broken.c_str());
  check_that_nothing_is_lost(folder, data);
}

TEST_CASE("stopping: a model that learnt nothing or is broken is a failure", "[stopping]") {
  const temporary_folder folder;
  const auto failure = [&](const std::vector<std::string>& arguments) {
    const program_result result = run_train(folder.path(), arguments);
    CHECK(result.status == 1);
    return result.errors;
  };
  // Parameters so large that no product of theirs is finite.
  const gpt2_trainer::gpt2_config config{8, 256, 256, 1, 2, 8};
  const auto count = static_cast<std::size_t>(gpt2_trainer::parameter_layout(config).count());
  gpt2_trainer::write_model(folder / "huge.bin", {config, std::vector<float>(count, 1e30f)});
  contains(failure({"--checkpoint", "huge.bin", "--steps", "3", "--val-every", "0",
                    "--sample-length", "4", "--out", "a"}),
           "not finite in 3 steps in a row, up to step 3");
  // The last update makes infinite numbers of finite gradients.
  for (const char* checkpoints : {"1", "0"}) {
    contains(
        failure(tiny_run({"--steps", "1", "--lr", "3.4e38", "--weight-decay", "1e4", "--schedule",
                          "constant", "--out", "b", "--checkpoint-every", checkpoints})),
        "parameters must be finite, got ");
  }
  CHECK_FALSE(fs::exists(folder / "b/model_00000001.bin"));
}
