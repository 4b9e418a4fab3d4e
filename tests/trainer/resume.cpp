#include "../support/catch.hpp"
#include "program.hpp"

using namespace llmc_test;

namespace {

std::vector<double> losses(const std::filesystem::path& log) {
  std::vector<double> values;
  for (const auto& line : log_lines(log, "loss")) values.push_back(line.at("loss"));
  return values;
}

std::string bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// 16 steps over a text so short that epochs end within it.
std::vector<std::string> sixteen_steps(const std::filesystem::path& text, const std::string& out,
                                       const std::string& order) {
  return tiny_run({"--data", text.string(), "--steps", "16", "--total-batch", "32", "--warmup", "4",
                   "--lr", "0.01", "--checkpoint-every", "8", "--order", order, "--out", out,
                   "--log", out + ".jsonl"});
}

std::filesystem::path short_text(const temporary_folder& folder) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "line " + std::to_string(i * i) + "\n";
  return write_text(folder / "text.txt", text);
}

}  // namespace

TEST_CASE("resume: 8 steps and 8 more are 16 steps, bit by bit", "[resume]") {
  const std::string order = GENERATE("shuffled", "sequential");
  const temporary_folder folder;
  const auto text = short_text(folder);
  const program_result straight = run_train(folder.path(), sixteen_steps(text, "a", order));
  INFO(straight.errors);
  REQUIRE(straight.status == 0);

  // Go on from the state in the middle, in another folder.
  std::filesystem::create_directory(folder / "b");
  for (const char* name : {"model_00000008.bin", "state_00000008.bin"}) {
    std::filesystem::copy(folder / "a" / name, folder / "b" / name);
  }
  const program_result resumed = run_train(folder.path(), {"--resume", "b", "--log", "b.jsonl"});
  INFO(resumed.errors);
  REQUIRE(resumed.status == 0);

  const std::vector<double> all = losses(folder / "a.jsonl");
  const std::vector<double> rest = losses(folder / "b.jsonl");
  REQUIRE(all.size() == 16);
  CHECK(rest == std::vector<double>(all.begin() + 8, all.end()));
  CHECK(all.front() != all.back());
  CHECK(bytes(folder / "a/model_00000016.bin") == bytes(folder / "b/model_00000016.bin"));
  CHECK(log_lines(folder / "a.jsonl", "sample").back() ==
        log_lines(folder / "b.jsonl", "sample").back());
  CHECK(log_lines(folder / "a.jsonl", "validation_loss").back() ==
        log_lines(folder / "b.jsonl", "validation_loss").back());
}

TEST_CASE("resume: an interrupted run writes a checkpoint and goes on", "[resume]") {
  const temporary_folder folder;
  const auto text = short_text(folder);
  const auto forever = tiny_run({"--data", text.string(), "--steps", "1000000", "--log", "log",
                                 "--schedule", "constant", "--warmup", "0", "--val-every", "0"});
  const program_result stopped = interrupt_train(folder.path(), forever, folder / "log", 3);
  INFO(stopped.errors);
  CHECK(stopped.status == 130);
  const std::vector<double> before = losses(folder / "log");
  REQUIRE(before.size() >= 3);

  // --resume without a path finds the default folder, and goes on with the log.
  const std::size_t more = before.size() + 2;
  const program_result resumed =
      run_train(folder.path(), {"--resume", "--steps", std::to_string(more)});
  INFO(resumed.errors);
  CHECK(resumed.status == 0);
  const auto lines = log_lines(folder / "log", "loss");
  REQUIRE(lines.size() == more);
  CHECK(lines.back().at("step") == more);
}

TEST_CASE("resume: what may not change is refused", "[resume]") {
  const temporary_folder folder;
  const auto text = short_text(folder);
  REQUIRE(run_train(folder.path(), sixteen_steps(text, "a", "shuffled")).status == 0);
  const auto refusal = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--resume", "a"});
    const program_result result = run_train(folder.path(), arguments);
    CHECK(result.status == 2);
    CHECK(result.output.empty());
    return result.errors;
  };
  CHECK(refusal({"--batch", "4"}) ==
        "gpt2_train: --batch must be 2 as in the run that is resumed, got 4\n");
  CHECK(refusal({"--seed", "1"}) ==
        "gpt2_train: --seed must be 42 as in the run that is resumed, got 1\n");
  CHECK(refusal({"--order", "sequential"}) ==
        "gpt2_train: --order must be 'shuffled' as in the run that is resumed, got 'sequential'\n");
  CHECK(refusal({"--channels", "16"}) ==
        "gpt2_train: --channels must be 8 as in the run that is resumed, got 16\n");
  CHECK(refusal({}) == "gpt2_train: --steps must be more than the 16 that are done, got 16\n");
  write_text(text, "another text" + std::string(500, 'x'));
  CHECK(refusal({"--steps", "20"}).find("but text.txt must have ") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder / "a/state_00000020.bin"));
}
