#include <fcntl.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/catch.hpp"
#include "program.hpp"

using namespace llmc_test;

namespace {

namespace fs = std::filesystem;

/// A project whose workflow preset trains as that of llmc does.
void write_project(const temporary_folder& folder) {
  write_text(folder / "CMakeLists.txt",
             "cmake_minimum_required(VERSION 3.25)\n"
             "project(workflow LANGUAGES CXX)\n"
             "add_executable(gpt2_train IMPORTED)\n"
             "set_target_properties(gpt2_train PROPERTIES IMPORTED_LOCATION \"" GPT2_TRAIN
             "\")\n"
             "include(\"" LLMC_SOURCE_DIR "/cmake/llmc-train.cmake\")\n");
  std::string arguments = "--backend cpu --steps 100000000 --val-every 0 --log log";
  for (const std::string& argument : tiny_run()) arguments += " " + argument;
  write_text(folder / "CMakePresets.json",
             R"({"version": 6,
                 "configurePresets": [{"name": "train", "generator": "Ninja",
                   "binaryDir": "${sourceDir}/build",
                   "cacheVariables": {"LLMC_TRAIN_ARGUMENTS": ")" +
                 arguments + R"("}}],
                 "buildPresets": [
                   {"name": "train", "configurePreset": "train", "targets": "llmc_train"}],
                 "workflowPresets": [{"name": "train", "steps": [
                   {"type": "configure", "name": "train"}, {"type": "build", "name": "train"}]}]})");
}

/// What the terminal shows; without end it would make those that print wait.
std::string shown(int terminal) {
  std::string text;
  char some[4096];
  for (ssize_t got; (got = ::read(terminal, some, sizeof some)) > 0;) {
    text.append(some, static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

TEST_CASE("workflow: Ctrl-C leaves a checkpoint before the prompt returns", "[workflow]") {
  const temporary_folder folder;
  write_project(folder);
  int terminal = -1;
  const pid_t cmake = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  REQUIRE(cmake >= 0);
  if (cmake == 0) {
    if (::chdir(folder.path().c_str()) != 0) ::_exit(125);
    ::execl(CMAKE, CMAKE, "--workflow", "--preset", "train", static_cast<char*>(nullptr));
    ::_exit(126);
  }
  REQUIRE(::fcntl(terminal, F_SETFL, O_NONBLOCK) == 0);
  std::string text;
  const auto log = folder / "build/log";
  const bool trains = wait_until([&] {
    text += shown(terminal);
    return log_lines(log, "loss").size() >= 3;
  });
  INFO(text);
  REQUIRE(trains);
  REQUIRE(::write(terminal, "\x03", 1) == 1);
  int status = 0;
  REQUIRE(wait_until([&] {
    text += shown(terminal);
    return ::waitpid(cmake, &status, WNOHANG) == cmake;
  }));
  // CMake was there until the end, and so was a prompt's shell kept waiting.
  INFO(text);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) != 0);
  REQUIRE(log_lines(log, "model").size() == 1);
  CHECK(fs::exists(log_lines(log, "model").front().at("state").get<std::string>()));
  CHECK(text.find("interrupted after step ") != std::string::npos);
  ::close(terminal);
}
