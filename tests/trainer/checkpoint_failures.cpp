// What a checkpoint is when something went wrong while it was written or after that.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <thread>

#include "../support/catch.hpp"
#include "checkpoint_support.hpp"
#include "gpt2/files/file.hpp"
#include "temporary_folder.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

namespace fs = std::filesystem;

std::string contents(const checkpoint_paths& paths) {
  return read_file(paths.model) + read_file(paths.state);
}

/// Runs a call in a process of its own and returns how waitpid says that it ended. The status of
/// one that is not killed is 1 if the call threw.
template <class Call>
pid_t in_child(Call call) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::_exit(message_of(call).empty() ? 0 : 1);
}

int status_of(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("checkpoint: a bit that flips anywhere is found", "[checkpoint]") {
  const temporary_folder folder;
  const checkpoint_paths paths = checkpoint_at(folder.path(), 200);
  const model_file model = small_model(1, {2, 2, 2, 1, 1, 1});
  write_checkpoint(paths, model, small_state(model));
  for (const auto& path : {paths.model, paths.state}) {
    const std::string whole = read_file(path);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto put = [&](std::size_t at, int byte) {
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(byte)).flush();
    };
    std::int64_t missed = 0;
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        put(at, whole[at] ^ (1 << bit));
        missed += message_of([&] { read_checkpoint(paths.state); }).empty() ? 1 : 0;
      }
      put(at, whole[at]);
    }
    CHECK(missed == 0);
    CHECK_NOTHROW(read_checkpoint(paths.state));
  }
}

TEST_CASE("checkpoint: a file that ends early or late is found", "[checkpoint]") {
  const temporary_folder folder;
  const checkpoint_paths paths = checkpoint_at(folder.path(), 200);
  const model_file model = small_model(1, {2, 2, 2, 1, 1, 1});
  write_checkpoint(paths, model, small_state(model));
  for (const auto& path : {paths.model, paths.state}) {
    const std::string whole = read_file(path);
    std::int64_t missed = 0;
    const auto look = [&](std::size_t size) {
      fs::resize_file(path, size);
      missed += message_of([&] { read_checkpoint(paths.state); }).empty() ? 1 : 0;
    };
    for (std::size_t more = 1; more < 9; ++more) look(whole.size() + more);
    for (std::size_t size = whole.size(); size > 0; --size) look(size - 1);
    write_text(path, whole);
    CHECK(missed == 0);
  }
}

TEST_CASE("checkpoint: the latest whole one is read, and what was passed over is said",
          "[checkpoint]") {
  const temporary_folder folder;
  const auto at = [&](std::int64_t step) { return checkpoint_at(folder.path(), step); };
  const auto write = [&](std::int64_t step) {
    const model_file model = small_model(static_cast<std::uint32_t>(step));
    write_checkpoint(at(step), model, small_state(model, step));
  };
  for (const int step : {2, 3, 4}) write(step);
  CHECK(read_checkpoint(folder.path()).paths.state == at(4).state);
  CHECK(read_checkpoint(folder.path()).passed_over.empty());

  // As if runs had been killed between the renames: a new model beside an old state, and a model
  // alone.
  write_model(at(4).model, small_model(44));
  write(5);
  fs::remove(at(5).state);
  const checkpoint read = read_checkpoint(folder.path());
  CHECK(read.state.step == 3);
  CHECK(read.model.parameters == small_model(3).parameters);
  REQUIRE(read.passed_over.size() == 2);
  CHECK(read.passed_over[0] == at(5).state.string() + ": cannot open: No such file or directory");
  CHECK(read.passed_over[1].find(at(4).model.string() + ": checksum of the model must be ") == 0);

  for (const int step : {2, 3}) fs::resize_file(at(step).state, 100);
  const std::string none = message_of([&] { read_checkpoint(folder.path()); });
  CHECK(none.find(folder.path().string() + ": a whole checkpoint is wanted, but none of 4 is; " +
                  "of the latest: " + at(5).state.string() + ": cannot open") == 0);
}

TEST_CASE("checkpoint: numbers that are not finite are neither written nor read, unless allowed",
          "[checkpoint]") {
  const temporary_folder folder;
  const checkpoint_paths paths = checkpoint_at(folder.path(), 200);
  model_file model = small_model(1);
  training_state state = small_state(model);
  write_checkpoint(paths, model, state);
  const std::string good = contents(paths);

  const auto broken = GENERATE(0U, 1U, 2U);
  const std::array values{&model.parameters, &state.moments.m, &state.moments.v};
  (*values[broken])[7] =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
  const std::array names{"parameters", "AdamW's mean gradients", "AdamW's mean squares"};
  const std::string what = names[broken] + std::string(" must be finite, got ");
  const std::string place = " at place 7 (1 of " + std::to_string(model.parameters.size());

  const std::string unwritten = message_of([&] { write_checkpoint(paths, model, state); });
  CHECK(unwritten.find(paths.model.string() + " is not written: " + what) == 0);
  CHECK(unwritten.find(place) != std::string::npos);
  CHECK(contents(paths) == good);
  CHECK(files_in(folder.path()) == 2);

  write_checkpoint(paths, model, state, non_finite_choice::allow);
  const std::string unread = message_of([&] { read_checkpoint(paths.state); });
  CHECK(unread.find((broken == 0 ? paths.model : paths.state).string() + ": " + what) == 0);
  CHECK(unread.find(place) != std::string::npos);
  const checkpoint read = read_checkpoint(folder.path(), non_finite_choice::allow);
  const std::array were_read{&read.model.parameters, &read.state.moments.m, &read.state.moments.v};
  CHECK_FALSE(std::isfinite((*were_read[broken])[7]));
}

TEST_CASE("checkpoint: a disk that is full leaves what was there", "[checkpoint]") {
  const temporary_folder folder;
  const checkpoint_paths paths = checkpoint_at(folder.path(), 200);
  const model_file before = small_model(1);
  write_checkpoint(paths, before, small_state(before));
  const std::string good = contents(paths);
  const std::uintmax_t model_size = fs::file_size(paths.model);
  const std::uintmax_t state_size = fs::file_size(paths.state);
  REQUIRE(model_size < state_size);

  const model_file after = small_model(2);
  for (const std::uintmax_t room :
       {std::uintmax_t{0}, model_size - 1, model_size, state_size - 1, state_size}) {
    const int status = status_of(in_child([&] {
      // Writes past a limit fail as those to a full disk do.
      const rlimit limit{static_cast<rlim_t>(room), static_cast<rlim_t>(room)};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      ::signal(SIGXFSZ, SIG_IGN);
      write_checkpoint(paths, after, small_state(after));
    }));
    REQUIRE(WIFEXITED(status));
    CHECK(files_in(folder.path()) == 2);
    CHECK(WEXITSTATUS(status) == (room < state_size ? 1 : 0));
    CHECK((contents(paths) == good) == (room < state_size));
    CHECK_NOTHROW(read_checkpoint(folder.path()));
  }
}

TEST_CASE("checkpoint: whenever a writer is killed, all that it reported is whole",
          "[checkpoint]") {
  const temporary_folder folder;
  const model_file model = small_model(1);
  for (int round = 0; round < 20; ++round) {
    fs::remove_all(folder / "run");
    fs::create_directory(folder / "run");
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    const pid_t child = in_child([&] {
      for (std::int32_t step = 1;; ++step) {
        write_checkpoint(checkpoint_at(folder / "run", step), model, small_state(model, step));
        if (::write(ends[1], &step, sizeof step) != sizeof step) return;
      }
    });
    ::close(ends[1]);
    std::int32_t reported = 0;
    REQUIRE(::read(ends[0], &reported, sizeof reported) == sizeof reported);
    std::this_thread::sleep_for(std::chrono::microseconds(700 * round));
    ::kill(child, SIGKILL);
    status_of(child);
    for (std::int32_t step = 0; ::read(ends[0], &step, sizeof step) == sizeof step;) {
      reported = step;
    }
    ::close(ends[0]);

    CHECK(read_checkpoint(folder / "run").state.step >= reported);
    for (std::int32_t step = 1; step <= reported; ++step) {
      CHECK_NOTHROW(read_checkpoint(checkpoint_at(folder / "run", step).state));
    }
    remove_temporaries(folder / "run");
    for (const auto& entry : fs::directory_iterator(folder / "run")) {
      CHECK(entry.path().extension() == ".bin");
    }
  }
}

TEST_CASE("checkpoint: only what a writer of checkpoints left is removed", "[checkpoint]") {
  const temporary_folder folder;
  for (const char* name :
       {"model_00000004.bin.llmc-0123abcd.tmp", "state_00000004.bin.llmc-0123abcd.tmp",
        "model_00000004.bin", "model_00000004.bin.tmp", "notes.llmc-0123abcd.tmp",
        "model_00000004.bin.llmc-0123.tmp", "product_plans.txt.llmc-0123abcd.tmp"}) {
    write_text(folder / name, "");
  }
  remove_temporaries(folder.path());
  CHECK(files_in(folder.path()) == 5);
  CHECK_FALSE(fs::exists(folder / "model_00000004.bin.llmc-0123abcd.tmp"));
  CHECK_FALSE(fs::exists(folder / "state_00000004.bin.llmc-0123abcd.tmp"));
}
