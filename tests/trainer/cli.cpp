#include <cmath>
#include <fstream>

#include "../support/catch.hpp"
#include "program.hpp"

using namespace llmc_test;

namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    names.push_back(entry.path().string());
  }
  return names;
}

/// Runs with these arguments, checks all that a refusal must have in common (exit status 2, one
/// line on stderr, nothing written), and returns the line without the program's name.
std::string refusal(const temporary_folder& folder, const std::vector<std::string>& arguments) {
  const std::vector<std::string> before = names_in(folder.path());
  const program_result result = run_train(folder.path(), arguments);
  INFO(result.errors);
  CHECK(result.status == 2);
  CHECK(result.output.empty());
  CHECK(names_in(folder.path()) == before);
  const std::string prefix = "gpt2_train: ";
  REQUIRE(result.errors.size() > prefix.size());
  CHECK(result.errors.substr(0, prefix.size()) == prefix);
  CHECK(result.errors.find('\n') == result.errors.size() - 1);
  return result.errors.substr(prefix.size(), result.errors.size() - prefix.size() - 1);
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("cli: help and version", "[cli]") {
  const temporary_folder folder;
  const program_result help = run_train(folder.path(), {"--help"});
  CHECK(help.status == 0);
  CHECK(help.errors.empty());
  for (const char* option : {"--data",
                             "--val ",
                             "--val-fraction",
                             "--init",
                             "--layers",
                             "--heads",
                             "--channels",
                             "--context",
                             "--checkpoint ",
                             "--batch",
                             "--sequence",
                             "--total-batch",
                             "--steps",
                             "--lr",
                             "--min-lr",
                             "--warmup",
                             "--schedule",
                             "--weight-decay",
                             "--beta1",
                             "--beta2",
                             "--clip",
                             "--val-every",
                             "--val-batches",
                             "--sample-every",
                             "--sample-length",
                             "--prompt",
                             "--temperature",
                             "--top-k",
                             "--checkpoint-every",
                             "--out",
                             "--resume",
                             "--seed",
                             "--backend",
                             "--precision",
                             "--plans",
                             "--benchmark ",
                             "--benchmark-json",
                             "--profile ",
                             "--profile-json",
                             "--log"}) {
    contains(help.output, option);
  }
  CHECK(run_train(folder.path(), {"--version"}).status == 0);
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("cli: bad options are refused with what was seen and what is wanted", "[cli]") {
  struct bad_option {
    std::vector<std::string> arguments;
    std::string text;
  };
  const std::vector<bad_option> cases{
      {{"--batch", "0"}, "--batch: must be an integer between 1 and 1048576, got '0'"},
      {{"-b", "x"}, "--batch: must be an integer between 1 and 1048576, got 'x'"},
      {{"--steps", "1.5"}, "--steps: must be an integer at least 1, got '1.5'"},
      {{"--steps", "99999999999999999999"},
       "--steps: must be an integer between 1 and 9223372036854775807, got '99999999999999999999'"},
      {{"--seed", "-1"}, "--seed: must be an integer at least 0, got '-1'"},
      {{"--lr", "nan"}, "--lr: must be a number at least 0, got 'nan'"},
      {{"--lr", "1e-3x"}, "--lr: must be a number at least 0, got '1e-3x'"},
      {{"--beta2", "1"}, "--beta2: must be a number between 0 and 0.999999, got '1'"},
      {{"--val-fraction", "0.9"}, "--val-fraction: must be a number between 0 and 0.5, got '0.9'"},
      {{"--schedule", "foo"}, "--schedule: must be one of cosine, linear, constant, wsd, got foo"},
      {{"--precision", "fp8"}, "--precision: must be one of ieee, tf32, tf32x3, got fp8"},
      {{"--order", ""}, "--order: must be one of shuffled, sequential, got "},
      {{"--init", "d5"}, "--init: must be one of d6 to d48, d60, d72, d84, gpt3:c384, "},
      {{"--init", "e12"}, "--init: must be one of d6 to d48, d60, d72, d84, gpt3:c384, "},
      {{"--init", "d12x"}, "--init: must be one of d6 to d48, d60, d72, d84, gpt3:c384, "},
      {{"--heads", "3"}, "heads must divide channels, got 3 heads"},
      {{"--sequence", "100000"}, "--sequence must be at most the model's context of "},
      {{"-b", "4", "-t", "16", "--total-batch", "100"},
       "--total-batch must be a multiple of batch * sequence = 64, got 100"},
      {{"--steps", "10", "--warmup", "11"}, "--warmup must be at most --steps = 10, got 11"},
      {{"--lr", "1e-4", "--min-lr", "1e-3"}, "--min-lr must be at most --lr = "},
      {{"--vocabulary", "300"},
       "--vocabulary must be 256 for text, whose tokens are bytes, got 300"},
      {{"--benchmark", "0"}, "--benchmark: must be an integer between 1 and 1048576, got '0'"},
      {{"--benchmark", "--resume"}, "--benchmark begins anew, so no run may be resumed"},
      {{"--benchmark-json", "x"}, "--benchmark-json needs --benchmark, got none"},
      {{"--profile", "0"}, "--profile: must be an integer between 1 and 1048576, got '0'"},
      {{"--profile", "--resume"}, "--profile begins anew, so no run may be resumed"},
      {{"--profile", "--benchmark"},
       "--benchmark times steps in which no call is timed, got --profile, too"},
      {{"--profile-json", "x"}, "--profile-json needs --profile, got none"},
      {{"--profile", "--profile-json", "/"}, "--profile-json must be a file, got folder /"},
      {{"--plans", "/"}, "--plans must be a file, got folder /"},
      {{"--checkpoint", "x", "--layers", "2"}, "no other may be given, got --layers"},
      {{"--keep-every", "5"},
       "--keep-every needs --keep, which says how many others stay, got none"},
      {{"--frobnicate"}, "not expected: --frobnicate (--help lists the options)"},
      {{"extra"}, "not expected: extra (--backend takes one value; "},
      {{"--weight-decay", "1e39"}, "--weight-decay: must be a number at least 0, and 0 or of a "},
      {{"--clip", "1e-50"}, "--clip: must be a number at least 0, and 0 or of a size between "},
      {{"--step", "10"}, "not expected: --step; did you mean --steps?"},
      {{"--data", "a", "b"}, "not expected: b (--data takes one value; a pattern must be quoted"},
      {{"--seed", "1", "--seed=2"}, "--seed must be given once, got it 2 times"},
      {{"-b", "1", "--batch", "1"}, "--batch must be given once, got it 2 times"},
      {{"--out", "loop"}, "loop: Too many levels of symbolic links"},
      {{"--data"}, "--data: 1 required PATH|GLOB missing"}};
  const temporary_folder folder;
  fs::create_symlink("loop", folder / "loop");
  for (const bad_option& bad : cases) contains(refusal(folder, bad.arguments), bad.text);
}

TEST_CASE("cli: bad data is refused with what was seen and what is wanted", "[cli]") {
  const temporary_folder folder;
  const auto path = [&](const char* name) { return (folder / name).string(); };
  write_shard(folder / "magic.bin", counting_tokens(100), 7);
  write_shard(folder / "version.bin", counting_tokens(100), 20240520, 2);
  write_shard(folder / "short.bin", counting_tokens(100), 20240520, 1, 101);
  write_shard(folder / "range.bin",
              {1, 2, 3, 60000, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17});
  write_shard(folder / "good.bin", counting_tokens(17));
  write_shard(folder / "few.bin", counting_tokens(16));
  write_text(folder / "few.txt", "0123456789");
  write_text(folder / "binary.txt", "abc\xFF");
  write_text(folder / "folder/binary", "\xFF");

  const auto refused = [&](const std::string& data, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = tiny_run({"--data", data});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return refusal(folder, arguments);
  };
  contains(refused(path("magic.bin")), path("magic.bin") + ": magic number must be 20240520");
  contains(refused(path("version.bin")), path("version.bin") + ": version must be 1");
  contains(refused(path("short.bin")), "must have 1226 bytes, got 1224");
  contains(refused(path("range.bin")),
           "range.bin: token 3 must be below the vocabulary of 50257, got 60000");
  contains(refused(path("few.bin")),
           "few.bin: at least batch * sequence + 1 = 17 tokens are wanted, got 16");
  contains(refused(path("none_*.bin")), "none_*.bin: a file, a folder or a pattern");
  contains(refused(path("missing.txt")), "missing.txt: a file, a folder or a pattern");
  contains(refused(path("binary.txt")),
           "binary.txt: UTF-8 text or llm.c's token shards are wanted");
  contains(refused(path("folder")), "a folder with UTF-8 text files is wanted");
  contains(refused(path("few.txt")), "tokens are wanted, got 1");
  contains(refused(path("good.bin"), {"--val", path("magic.bin")}), "magic.bin: magic number");
  contains(refused(path("good.bin"), {"--val", path("few.txt")}), "few.txt: the file must be");
  contains(refused(path("good.bin"), {"--prompt", "Hi"}),
           "--prompt must be for a model whose 256 tokens are bytes, got one of 50257 tokens: "
           "their text "
           "would need GPT-2's tokenizer");
  contains(refusal(folder, tiny_run({"--val", path("good.bin")})), "validation must be text");
}

TEST_CASE("cli: bad checkpoints and folders are refused", "[cli]") {
  const temporary_folder folder;
  const auto path = [&](const char* name) { return (folder / name).string(); };
  write_text(folder / "text", "not a checkpoint");
  write_text(folder / "used/state_00000008.bin", "");
  contains(refusal(folder, {"--checkpoint", path("text")}), "of at least 1024 bytes, got 16");
  contains(refusal(folder, {"--checkpoint", path("none")}), "none: cannot open: No such file");
  contains(refusal(folder, {"--resume", path("text")}), "text: a training state is wanted");
  contains(refusal(folder, {"--resume", path("none")}), "none: cannot open: No such file");
  contains(refusal(folder, {"--resume"}), "--resume without a path needs a folder llmc-run");
  contains(refusal(folder, {"--out", path("text")}), "--out must lie in a folder, but ");
  contains(refusal(folder, {"--out", path("text/below")}), "text is a file");
  contains(refusal(folder, {"--out", path("used")}), "without checkpoints of another run");
  contains(refusal(folder, {"--out", "/proc/run"}), "--out");
  contains(refusal(folder, {"--log", folder.path().string()}), "--log must be a file, got folder");
  contains(refusal(folder, {"--log", path("text/log")}), "--log must lie in a folder");
}

TEST_CASE("cli: a run says what it did, in lines and in JSON", "[cli]") {
  const temporary_folder folder;
  const program_result result =
      run_train(folder.path(),
                tiny_run({"--steps", "6", "--val-every", "4", "--sample-every", "5",
                          "--checkpoint-every", "3", "--log", "logs/log", "--prompt", "The "}));
  INFO(result.errors);
  REQUIRE(result.status == 0);
  CHECK(result.errors.empty());
  const auto log = folder / "logs/log";
  const auto steps_with = [&](const std::string& key) {
    std::vector<int> steps;
    for (const auto& line : log_lines(log, key)) steps.push_back(line.at("step"));
    return steps;
  };
  CHECK(steps_with("loss") == std::vector<int>{1, 2, 3, 4, 5, 6});
  CHECK(steps_with("validation_loss") == std::vector<int>{4, 6});
  CHECK(steps_with("sample") == std::vector<int>{5, 6});
  CHECK(steps_with("model") == std::vector<int>{3, 6});
  const auto step = log_lines(log, "loss").front();
  for (const char* key :
       {"gradient_norm", "learning_rate", "ms", "tokens_per_second", "seconds_left"}) {
    CHECK(step.at(key).is_number());
  }
  const fs::path model = log_lines(log, "model").back().at("model").get<std::string>();
  CHECK(model.is_absolute());
  CHECK(fs::equivalent(model, folder / "llmc-run/model_00000006.bin"));
  contains(result.output, model.string());

  // The next run does not touch the first one's checkpoints.
  REQUIRE(run_train(folder.path(), tiny_run({"--steps", "1"})).status == 0);
  CHECK(fs::exists(folder / "llmc-run-2/model_00000001.bin"));
}

TEST_CASE("cli: a benchmark times steps, writes JSON and nothing else", "[cli]") {
  const temporary_folder folder;
  const program_result result =
      run_train(folder.path(), tiny_run({"--vocabulary", "60", "--total-batch", "32", "--benchmark",
                                         "5", "--benchmark-json", "times.json"}));
  INFO(result.errors);
  REQUIRE(result.status == 0);
  CHECK(result.errors.empty());
  contains(result.output, "median ");
  contains(result.output, "random tokens");
  CHECK(names_in(folder.path()) == std::vector<std::string>{(folder / "times.json").string()});
  nlohmann::json times;
  std::ifstream(folder / "times.json") >> times;
  CHECK(times.at("steps") == 5);
  CHECK(times.at("tokens") == 32);
  CHECK(times.at("model").at("vocabulary") == 60);
  CHECK(times.at("milliseconds").at("all").size() == 5);
  CHECK(times.at("milliseconds").at("minimum") <= times.at("milliseconds").at("median"));
  CHECK(times.at("tokens_per_second") > 0);
  CHECK(times.at("model_flops_utilisation").is_null());  // nothing is known of a CPU's peak
  CHECK(times.at("total_memory_bytes") > 0);
}

TEST_CASE("cli: a benchmark takes text and a number of its own, too", "[cli]") {
  const temporary_folder folder;
  write_text(folder / "text", std::string(500, 'x'));
  const program_result result =
      run_train(folder.path(), tiny_run({"--data", "text", "--steps", "3", "--benchmark"}));
  INFO(result.errors);
  CHECK(result.status == 0);
  contains(result.output, "50 of 16 tokens");
  contains(result.output, "vocabulary 256");
  CHECK(names_in(folder.path()).size() == 1);
}

TEST_CASE("cli: a profile says what takes how long, writes JSON and nothing else", "[cli]") {
  const temporary_folder folder;
  const program_result result =
      run_train(folder.path(), tiny_run({"--vocabulary", "60", "--total-batch", "32", "--profile",
                                         "3", "--profile-json", "profile.json"}));
  INFO(result.errors);
  REQUIRE(result.status == 0);
  CHECK(result.errors.empty());
  contains(result.output, "matmul_forward 8 -> 24 ");
  contains(result.output, "sum of the calls ");
  contains(result.output, "a step by itself ");
  contains(result.output, "No ceilings are measured on this machine");
  contains(result.output, "3 steps with each call timed, and of 3 steps by themselves");
  CHECK(names_in(folder.path()) == std::vector<std::string>{(folder / "profile.json").string()});

  nlohmann::json profile;
  std::ifstream(folder / "profile.json") >> profile;
  CHECK(profile.at("profiled_steps") == 3);
  CHECK(profile.at("tokens") == 32);
  CHECK(profile.at("step_milliseconds").at("all").size() == 3);
  CHECK(profile.at("ceilings").at("bytes_per_second").is_null());
  double milliseconds = 0, share = 0, before = 1e300;
  for (const auto& call : profile.at("calls")) {
    CHECK(call.at("milliseconds") <= before);
    before = call.at("milliseconds");
    milliseconds += before;
    share += call.at("share").get<double>();
    CHECK(call.at("ceiling_share").is_null());
    // Two micro-batches, one layer.
    if (call.at("name") == "attention_backward") CHECK(call.at("calls") == 2);
  }
  CHECK(std::fabs(share - 1) < 1e-9);
  CHECK(std::fabs(milliseconds / profile.at("sum_milliseconds").get<double>() - 1) < 1e-9);
}

TEST_CASE("cli: never is never", "[cli]") {
  const temporary_folder folder;
  const program_result result =
      run_train(folder.path(), tiny_run({"--steps", "2", "--val-every", "0", "--sample-every", "0",
                                         "--checkpoint-every", "0", "--out", "never"}));
  CHECK(result.status == 0);
  CHECK(names_in(folder.path()).empty());
  CHECK(result.output.find("validation loss") == std::string::npos);
  CHECK(result.output.find("sample after") == std::string::npos);
}

TEST_CASE("cli: training goes on from llm.c's checkpoint and on token shards", "[cli]") {
  const temporary_folder folder;
  write_shard(folder / "train_1.bin", counting_tokens(50));
  write_shard(folder / "train_2.bin", counting_tokens(40));
  write_shard(folder / "val.bin", counting_tokens(30));
  const std::vector<std::string> data{"--data", "train_*.bin", "--val", "val.bin", "--steps", "2"};
  std::vector<std::string> arguments = tiny_run(data);
  arguments.insert(arguments.end(), {"--vocabulary", "60", "--out", "a"});
  const program_result first = run_train(folder.path(), arguments);
  INFO(first.errors);
  REQUIRE(first.status == 0);

  arguments = data;
  arguments.insert(arguments.end(), {"--checkpoint", "a/model_00000002.bin", "--out", "b", "-b",
                                     "3", "--sample-length", "4", "--log", "log"});
  const program_result second = run_train(folder.path(), arguments);
  INFO(second.errors);
  REQUIRE(second.status == 0);
  CHECK(log_lines(folder / "log", "loss").size() == 2);

  contains(refusal(folder, {"--checkpoint", "a/model_00000002.bin"}),
           "for text, whose tokens are bytes, the model's vocabulary must be 256, got 60");
}

TEST_CASE("cli: ten steps in a row that are not finite end the run", "[cli]") {
  const temporary_folder folder;
  // One update of this size leaves parameters whose products overflow.
  const program_result result = run_train(
      folder.path(), tiny_run({"--steps", "40", "--lr", "1e30", "--warmup", "0", "--schedule",
                               "constant", "--clip", "0", "--weight-decay", "0", "--log", "log"}));
  CHECK(result.status == 1);
  contains(result.output, "not finite: update skipped");
  CHECK(contains(result.errors, "not finite in 10 steps in a row, up to step 11"));
  CHECK(log_lines(folder / "log", "loss").size() == 11);
}
