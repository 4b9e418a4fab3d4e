#include <cmath>

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
  CHECK(
      refusal({}) ==
      "gpt2_train: --steps must be more than the 16 that are done (--prompt TEXT alone samples the "
      "model), got 16\n");
  write_text(text, "another text" + std::string(500, 'x'));
  CHECK(refusal({"--steps", "20"}).find("but text.txt must have ") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder / "a/state_00000020.bin"));
}

TEST_CASE("resume: what follows from an option that is changed is changed, and said", "[resume]") {
  const temporary_folder folder;
  const auto text = short_text(folder);
  REQUIRE(run_train(folder.path(), sixteen_steps(text, "a", "shuffled")).status == 0);

  // More steps: the cosine is a longer one, so the rate rises again.
  const program_result longer = run_train(folder.path(), {"--resume", "a", "--steps", "40"});
  INFO(longer.errors);
  REQUIRE(longer.status == 0);
  const auto said = [&](const std::string& part) {
    INFO(longer.output);
    const bool found = longer.output.find(part) != std::string::npos;
    CHECK(found);
  };
  said("resumed        after step 16\n");
  said("--steps from 16 to 40");
  said("so the learning rate of step 17 is 0.007402, and would have been 0.001\n");

  // The log goes on after an event that says from where.
  const auto resumed = log_lines(folder / "a.jsonl", "unchanged_learning_rate");
  REQUIRE(resumed.size() == 1);
  CHECK(resumed[0].at("event") == "resumed");
  CHECK(resumed[0].at("step") == 16);
  CHECK(resumed[0].at("changed").at("steps") == nlohmann::json{{"from", 16}, {"to", 40}});
  const double rate = resumed[0].at("learning_rate");
  const auto steps = log_lines(folder / "a.jsonl", "loss");
  REQUIRE(steps.size() == 40);
  CHECK(steps[16].at("step") == 17);
  CHECK(std::fabs(steps[16].at("learning_rate").get<double>() - rate) < 1e-6 * rate);

  // A rate below the last rate's tenth: --min-lr was never given, so it follows.
  const program_result slower =
      run_train(folder.path(), {"--resume", "a", "--steps", "41", "--lr", "1e-4"});
  INFO(slower.errors);
  CHECK(slower.status == 0);
  const auto settings = log_lines(folder / "a.jsonl", "options").back();
  CHECK(settings.at("options").at("min-lr") == 1e-5);
  CHECK(settings.at("options").at("lr") == 1e-4);
  CHECK(settings.at("options").at("steps") == 41);
}

TEST_CASE("resume: a finished run that is given a prompt is sampled, and nothing is written",
          "[resume]") {
  const temporary_folder folder;
  const auto text = short_text(folder);
  REQUIRE(run_train(folder.path(), sixteen_steps(text, "a", "shuffled")).status == 0);
  const auto last = log_lines(folder / "a.jsonl", "sample").back();
  const std::string log = bytes(folder / "a.jsonl");
  std::filesystem::remove(text);  // the data are not needed any more

  const auto sampled = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--resume", "a"});
    const program_result result = run_train(folder.path(), arguments);
    INFO(result.errors);
    CHECK(result.status == 0);
    CHECK(result.errors.empty());
    const std::string begin = "---- sample after step 16 ----\n";
    const auto at = result.output.find(begin);
    REQUIRE(at != std::string::npos);
    return result.output.substr(at + begin.size());
  };
  const std::string prompt = last.at("prompt");
  const std::string sample = last.at("sample");
  CHECK(sampled({"--prompt", prompt}) == prompt + sample + "\n---- end of sample ----\n\n");
  CHECK(sampled({"--prompt", "line", "--steps", "16"}).substr(0, 4) == "line");
  CHECK(sampled({"--prompt", "line", "--sample-length", "100", "--seed", "1"}) !=
        sampled({"--prompt", "line", "--sample-length", "100", "--seed", "2"}));
  CHECK(bytes(folder / "a.jsonl") == log);
  CHECK_FALSE(std::filesystem::exists(folder / "llmc-run"));

  const program_result other =
      run_train(folder.path(), {"--resume", "a", "--prompt", "line", "--channels", "16"});
  CHECK(other.status == 2);
  // More steps are a run that goes on, which needs its data.
  CHECK(run_train(folder.path(), {"--resume", "a", "--prompt", "x", "--steps", "17"}).status == 2);
}

TEST_CASE("resume: a model of token shards says why it makes no text", "[resume]") {
  const temporary_folder folder;
  write_shard(folder / "train.bin", counting_tokens(50));
  const program_result trained = run_train(
      folder.path(), tiny_run({"--data", "train.bin", "--vocabulary", "60", "--steps", "2"}));
  INFO(trained.errors);
  REQUIRE(trained.status == 0);
  CHECK(trained.output.find("samples        numbers of tokens: their text would need GPT-2's "
                            "tokenizer, which gpt2_train does not have yet") != std::string::npos);
  const program_result asked = run_train(folder.path(), {"--resume", "--prompt", "Hi"});
  CHECK(asked.status == 2);
  CHECK(asked.errors.find("--prompt must be for a model whose 256 tokens are bytes, got one of 60 "
                          "tokens: their text would need GPT-2's tokenizer") != std::string::npos);
}

TEST_CASE("resume: paths of any bytes", "[resume]") {
  const temporary_folder folder;
  write_text(folder / "t\xFFxt \xE4", bytes(short_text(folder)));
  const program_result first = run_train(
      folder.path(),
      tiny_run({"--data", "t\xFFxt \xE4", "--steps", "2", "--out", "r\xFEn", "--log", "l\xFFg"}));
  INFO(first.errors);
  REQUIRE(first.status == 0);
  const program_result resumed = run_train(folder.path(), {"--resume", "r\xFEn", "--steps", "4"});
  INFO(resumed.errors);
  CHECK(resumed.status == 0);
  CHECK(std::filesystem::exists(folder / "r\xFEn/model_00000004.bin"));
  CHECK(log_lines(folder / "l\xFFg", "loss").size() == 4);
}
