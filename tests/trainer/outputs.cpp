// No output destroys what is there, and none that fails goes unsaid.
#include <sys/wait.h>

#include <cstdlib>

#include "../support/catch.hpp"
#include "program.hpp"

using namespace llmc_test;

namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What a run on this text, of 4 steps that write nothing but what `more` names, is refused with.
/// Nothing in the folder may change.
std::string refusal(const temporary_folder& folder, const std::vector<std::string>& more) {
  const auto all = [&] {
    std::vector<std::pair<std::string, std::string>> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
      if (entry.is_regular_file()) {
        files.emplace_back(entry.path().string(), contents(entry.path()));
      }
    }
    return files;
  };
  const auto before = all();
  const program_result result = run_train(folder.path(), tiny_run(more));
  CHECK(result.status == 2);
  CHECK(result.output.empty());
  const bool unchanged = all() == before;
  CHECK(unchanged);
  return result.errors;
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

std::string some_text() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "line " + std::to_string(i * i) + "\n";
  return text;
}

/// Four steps without checkpoints.
std::vector<std::string> four_steps(const std::vector<std::string>& more) {
  std::vector<std::string> arguments =
      tiny_run({"--data", "text", "--steps", "4", "--val-every", "0", "--sample-every", "0",
                "--checkpoint-every", "0"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// As a shell runs it, in that folder; the exit status.
int shell(const temporary_folder& folder, const std::vector<std::string>& arguments,
          const std::string& redirections) {
  std::string command = "cd '" + folder.path().string() + "' && " + GPT2_TRAIN + " --backend cpu";
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  const int status = std::system((command + " " + redirections).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("outputs: no output is an input, by whatever name", "[outputs]") {
  const temporary_folder folder;
  write_text(folder / "text", some_text());
  write_text(folder / "folder/text", some_text());
  write_text(folder / "other", some_text());
  fs::create_symlink(folder / "text", folder / "link");
  fs::create_hard_link(folder / "text", folder / "hard");
  fs::create_hard_link(folder / "folder/text", folder / "hard_below");
  fs::create_directory_symlink(folder.path(), folder / "around");
  for (const char* output : {"--log", "--benchmark-json", "--profile-json", "--plans"}) {
    std::vector<std::string> measured;
    if (output == std::string("--benchmark-json")) measured = {"--benchmark", "1"};
    if (output == std::string("--profile-json")) measured = {"--profile", "1"};
    const auto refused = [&](const char* name, const std::vector<std::string>& data) {
      std::vector<std::string> arguments = measured;
      arguments.insert(arguments.end(), data.begin(), data.end());
      arguments.insert(arguments.end(), {output, name});
      INFO(output << " " << name);
      return refusal(folder, arguments);
    };
    const bool is_first = output == std::string("--log");  // all go the same way after that
    for (const char* name : {"hard", "text", "./text", "link", "around/text"}) {
      contains(refused(name, {"--data", "text"}), std::string(output) + " must be another file, ");
      if (!is_first) break;
      contains(refused(name, {"--data", "other", "--val", "text"}), "which is read as --val");
      contains(refused(name, {"--data", "te*t"}), "which is read as --data");
    }
    contains(refused("hard_below", {"--data", "folder"}), "which is read as --data");
    contains(refused("folder/new", {"--data", "folder"}),
             "which lies in the folder of --data and would be read with it");
  }
}

TEST_CASE("outputs: no output is a file that is not ours", "[outputs]") {
  const temporary_folder folder;
  write_text(folder / "letter", "Dear reader,\n");
  write_text(folder / "json", R"({"schema":"another","version":1})");
  write_text(folder / "cut", R"({"schema":"llmc.gpt2_train.log)");
  for (const char* name : {"letter", "json", "cut"}) {
    INFO(name);
    contains(refusal(folder, {"--log", name}),
             "a new or an empty file is wanted, or one of the schema llmc.gpt2_train.log, got");
    contains(refusal(folder, {"--benchmark", "1", "--benchmark-json", name}),
             "or one of the schema llmc.gpt2_train.benchmark, got");
    contains(refusal(folder, {"--profile", "1", "--profile-json", name}),
             "or one of the schema llmc.gpt2_train.profile, got");
  }
  contains(refusal(folder, {"--benchmark", "1", "--benchmark-json", "/dev/null"}),
           "/dev/null: a regular file is wanted");
}

TEST_CASE("outputs: two outputs are two files, and none has a checkpoint's name", "[outputs]") {
  const temporary_folder folder;
  contains(refusal(folder, {"--benchmark", "1", "--log", "x", "--benchmark-json", "./x"}),
           "--benchmark-json must be another file, got ");
  contains(refusal(folder, {"--log", "x", "--plans", "x"}), "which is written as --log");
  contains(refusal(folder, {"--out", "run", "--log", "run/model_00000004.bin"}),
           "which is a name that the run gives its own files");
  contains(refusal(folder, {"--out", "run", "--log", "run/run.lock"}),
           "which is a name that the run gives its own files");
  contains(refusal(folder, {"--out", "run", "--log", "run/product_plans.txt"}),
           "which is written as --log");
}

TEST_CASE("outputs: a log does not share a file with standard output", "[outputs]") {
  const temporary_folder folder;
  write_text(folder / "text", some_text());
  CHECK(shell(folder, four_steps({"--log", "out"}), "> out 2> errors") == 2);
  contains(contents(folder / "errors"), "to which standard output goes");
  CHECK(shell(folder, four_steps({"--log", "/dev/stdout"}), "2> errors | grep -q seconds_left") ==
        0);
}

TEST_CASE("outputs: a run does not write over the checkpoint that it begins with", "[outputs]") {
  const temporary_folder folder;
  write_text(folder / "text", some_text());
  REQUIRE(run_train(folder.path(), tiny_run({"--data", "text", "--steps", "2", "--out", "run"}))
              .status == 0);
  fs::remove(folder / "run/state_00000002.bin");
  const std::string before = contents(folder / "run/model_00000002.bin");
  const program_result result = run_train(
      folder.path(),
      {"--checkpoint", "run/model_00000002.bin", "--data", "text", "--steps", "2", "--out", "run"});
  CHECK(result.status == 2);
  contains(result.errors, "--out must be another folder than that of --checkpoint");
  CHECK(contents(folder / "run/model_00000002.bin") == before);
}

TEST_CASE("outputs: a log is only ever added to", "[outputs]") {
  const temporary_folder folder;
  write_text(folder / "text", some_text());
  write_text(folder / "log", "");
  REQUIRE(run_train(folder.path(), four_steps({"--log", "log"})).status == 0);
  const std::string first = contents(folder / "log");
  const auto begin = nlohmann::json::parse(first.substr(0, first.find('\n')));
  CHECK(begin.at("event") == "begin");
  CHECK(begin.at("schema") == "llmc.gpt2_train.log");
  CHECK(begin.at("version") == 1);

  // A line that a full disk or a lost machine cut stays a line of its own.
  std::ofstream(folder / "log", std::ios::app) << "{\"event\":\"st";
  REQUIRE(run_train(folder.path(), four_steps({"--log", "log"})).status == 0);
  const std::string both = contents(folder / "log");
  CHECK(both.substr(0, first.size()) == first);
  CHECK(log_lines(folder / "log", "loss").size() == 8);
  CHECK(log_lines(folder / "log", "schema").size() == 2);
}

TEST_CASE("outputs: a log that fails is said once, and the status is not 0", "[outputs]") {
  const temporary_folder folder;
  write_text(folder / "text", some_text());
  const program_result result = run_train(folder.path(), four_steps({"--log", "/dev/full"}));
  CHECK(result.status == 1);
  CHECK(result.errors ==
        "gpt2_train: /dev/full: cannot write: No space left on device; the run goes on, but its "
        "log is not complete\n");
  contains(result.output, "\n       4 ");
  CHECK(run_train(folder.path(), four_steps({"--log", "/dev/null"})).status == 0);
}

TEST_CASE("outputs: a pipe that nobody reads is refused, not waited for", "[outputs]") {
  const temporary_folder folder;
  write_text(folder / "text", some_text());
  make_fifo(folder / "pipe");
  const program_result result = run_train(folder.path(), four_steps({"--log", "pipe"}));
  CHECK(result.status == 2);
  contains(result.errors, "pipe: cannot write: no program reads it");
}

TEST_CASE("outputs: a standard output that fails is said, and the status is not 0", "[outputs]") {
  const temporary_folder folder;
  write_text(folder / "text", some_text());
  const std::string said =
      "gpt2_train: not all that was printed could be written to standard output\n";
  CHECK(shell(folder, four_steps({"--log", "log"}), "> /dev/full 2> errors") == 1);
  CHECK(contents(folder / "errors") == said);
  CHECK(log_lines(folder / "log", "loss").size() == 4);
  CHECK(shell(folder, {"--help"}, "> /dev/full 2> errors") == 1);
  CHECK(contents(folder / "errors") == said);
}

TEST_CASE("outputs: no file gets what is printed where standard streams are closed", "[outputs]") {
  const temporary_folder folder;
  write_text(folder / "text", some_text());
  CHECK(shell(folder, tiny_run({"--data", "text", "--steps", "4", "--log", "log", "--out", "run"}),
              "<&- >&- 2>&-") == 1);
  CHECK(contents(folder / "log").front() == '{');
  CHECK(log_lines(folder / "log", "loss").size() == 4);
  CHECK(shell(folder, {"--resume", "run", "--prompt", "a", "--sample-length", "1"}, "<&- > said") ==
        0);
}

TEST_CASE("outputs: a run in a folder below its data can be gone on from", "[outputs]") {
  const temporary_folder folder;
  fs::create_directory(folder / "data");
  write_text(folder / "data/text", some_text());
  const auto steps = [](const char* number) {
    return tiny_run({"--data", "data", "--steps", number, "--out", "data/run", "--val-every", "0",
                     "--sample-every", "0"});
  };
  CHECK(run_train(folder.path(), steps("2")).status == 0);
  const program_result more = run_train(folder.path(), {"--resume", "data/run", "--steps", "3"});
  CHECK(more.errors.empty());
  CHECK(more.status == 0);
  // In the folder itself it would be read as text.
  CHECK(run_train(folder.path(), {"--data", "data", "--steps", "2", "--out", "data"}).status == 2);
}
