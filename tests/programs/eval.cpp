#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../support/catch.hpp"
#include "../support/running_program.hpp"
#include "../trainer/checkpoint_support.hpp"
#include "../trainer/temporary_folder.hpp"

using namespace llmc_test;

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// A folder with a model of bytes, one of 10 tokens, and what both can be evaluated on.
class inputs : public temporary_folder {
 public:
  inputs() {
    write_model(*this / "bytes.bin", small_model(1, {6, 256, 256, 1, 2, 8}));
    write_model(*this / "ten.bin", small_model(2, {6, 10, 128, 1, 2, 8}));
    write_shard(*this / "a.bin", {1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2});
    write_shard(*this / "b.bin", {3, 4, 5});
    write_text(*this / "text" / "a.txt", "some text");
    write_text(*this / "text" / "b.txt", "");
    write_text(*this / "text" / "c.txt", "more");
    write_text(*this / "choices.jsonl",
               R"({"ctx": "He is", "label": 1, "endings": ["up", "on", "at", "it"]})");
  }

  std::string operator[](const std::string& name) const { return (*this / name).string(); }
};

program_result evaluate(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--backend", "cpu"});
  return running_program(GPT2_EVAL, std::filesystem::current_path(), arguments).wait();
}

/// What it prints as JSON.
json found(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--json", "-"});
  const program_result result = evaluate(arguments);
  INFO(result.errors);
  REQUIRE(result.status == 0);
  CHECK(result.errors.empty());
  return json::parse(result.output);
}

/// Checks status, form, and that nothing is written; returns the line.
std::string refusal(const inputs& in, const std::vector<std::string>& arguments) {
  const auto before = std::distance(fs::recursive_directory_iterator(in.path()), {});
  const program_result result = evaluate(arguments);
  CHECK(result.status == 2);
  CHECK(result.output.empty());
  CHECK(std::distance(fs::recursive_directory_iterator(in.path()), {}) == before);
  CHECK(result.errors.find('\n') == result.errors.size() - 1);
  const std::string prefix = "gpt2_eval: ";
  CHECK(result.errors.rfind(prefix, 0) == 0);
  return result.errors.substr(prefix.size(), result.errors.size() - prefix.size() - 1);
}

}  // namespace

TEST_CASE("gpt2_eval: shards, by pattern, whatever the batch") {
  const inputs in;
  const json one = found({in["ten.bin"], "--data", in["[ab].bin"], "-b", "1"});
  CHECK(one["schema"] == "llmc.gpt2_eval");
  CHECK(one["extents"]["vocabulary"] == 10);
  CHECK(one["hellaswag"].is_null());
  CHECK(one["data"]["documents"] == 2);
  CHECK(one["data"]["tokens"] == 13);
  CHECK(one["data"]["bytes"].is_null());
  CHECK(one["data"]["bits_per_byte"].is_null());
  CHECK(one["data"]["sequence"] == 6);
  CHECK(one["data"]["stride"] == 6);
  const double loss = one["data"]["loss"];
  CHECK(one["data"]["perplexity"].get<double>() == Approx(std::exp(loss)));
  for (const char* batch : {"2", "8"}) {
    const json more = found({in["ten.bin"], "--data", in["[ab].bin"], "-b", batch});
    CHECK(more["data"]["tokens"] == 13);
    CHECK(more["data"]["loss"].get<double>() == Approx(loss).epsilon(1e-12));
  }
  const json strided = found({in["ten.bin"], "--data", in["[ab].bin"], "-t", "5", "--stride", "2"});
  CHECK(strided["data"]["tokens"] == 13);
  CHECK(strided["data"]["loss"] != loss);
}

TEST_CASE("gpt2_eval: text and choices of a model of bytes") {
  const inputs in;
  const std::vector<std::string> both{in["bytes.bin"], "--data", in["text"], "--hellaswag",
                                      in["choices.jsonl"]};
  const json values = found(both);
  CHECK(values["data"]["documents"] == 3);
  CHECK(values["data"]["tokens"] == 13);
  CHECK(values["data"]["bytes"] == 13);
  CHECK(values["data"]["bits_per_byte"].get<double>() ==
        Approx(values["data"]["loss"].get<double>() / std::log(2.0)));
  const json choices = values["hellaswag"];
  CHECK(choices["examples"] == 1);
  CHECK(choices["cut"] == 1);  // 5 + 3 bytes are 7 inputs
  REQUIRE(choices["judged"].size() == 1);
  const json judged = choices["judged"][0];
  CHECK(judged["label"] == 1);
  REQUIRE(judged["loss"]["completions"].size() == 4);
  CHECK(judged["loss_per_byte"]["completions"][2].get<double>() ==
        Approx(judged["loss"]["completions"][2].get<double>() / 2));
  const bool right = judged["loss"]["chosen"] == 1;
  CHECK(choices["accuracy"]["loss"]["correct"] == (right ? 1 : 0));
  CHECK(choices["accuracy"]["loss"]["standard_error"].is_null());

  const program_result table = evaluate(both);
  CHECK(table.status == 0);
  CHECK(table.errors.empty());
  for (const char* text :
       {"13 tokens of 13 bytes", "6 tokens, stride 6", "perplexity ", "bits per byte ",
        "choices.jsonl: 1 example\n",
        "1 context did not fit into 6 tokens and was cut from the left", "(llm.c's rule)"}) {
    INFO(table.output << text);
    CHECK(table.output.find(text) != std::string::npos);
  }
}

TEST_CASE("gpt2_eval: results are written to a file of their own") {
  const inputs in;
  const std::vector<std::string> arguments{in["ten.bin"], "--data", in["a.bin"], "--json",
                                           in["results.json"]};
  for (int times = 0; times < 2; ++times) {
    const program_result result = evaluate(arguments);
    CHECK(result.status == 0);
    CHECK(result.output.find("perplexity") != std::string::npos);
  }
  CHECK(json::parse(std::ifstream(in / "results.json"))["data"]["tokens"] == 11);
}

TEST_CASE("gpt2_eval: what cannot be used is refused") {
  const inputs in;
  write_text(in / "other.json", "{}");
  write_shard(in / "one_token.bin", {1});
  write_shard(in / "large.bin", {1, 2, 10});
  write_text(in / "long.jsonl", R"({"ctx": "a", "label": 0, "endings": ["1234567", "b"]})");
  struct bad {
    std::vector<std::string> arguments;
    std::string text;
  };
  const std::string bytes = in["bytes.bin"], ten = in["ten.bin"], a = in["a.bin"];
  const std::vector<bad> cases{
      {{}, "model is required"},
      {{ten}, "--data or --hellaswag is wanted, got neither"},
      {{in["none.bin"], "--data", a}, in["none.bin"] + ": cannot open"},
      {{a, "--data", a}, a + ": magic number must be 20240326"},
      {{in["text"], "--data", a}, in["text"] + ": a folder with "},
      {{ten, "--data", in["none*"]}, in["none*"] + ": a file, a folder or a pattern"},
      {{ten, "--data", in["text"]}, in["text"] + ": for text --tokenizer is wanted"},
      {{ten, "--data", in["one_token.bin"]}, in["one_token.bin"] + ": a token and one after it"},
      {{ten, "--data", in["large.bin"]},
       in["large.bin"] + ": token 2 must be below the vocabulary of 10, got 10"},
      {{ten, "--hellaswag", in["choices.jsonl"]},
       in["choices.jsonl"] + ": an llm.c file of multiple choice or, with --tokenizer, lines"},
      {{bytes, "--hellaswag", in["long.jsonl"]},
       in["long.jsonl"] + ": example 0: completions must be of at most 6 tokens, as many as the " +
           "model sees, got 8"},
      {{bytes, "--hellaswag", in["text"]}, in["text"] + ": a regular file is wanted"},
      {{ten, "--data", a, "-t", "7"}, "--sequence must be at most the model's context, 6, got 7"},
      {{ten, "--data", a, "-t", "4", "--stride", "5"},
       "--stride must be at most the sequence, 4, got 5"},
      {{ten, "--data", a, "--stride", "0"}, "--stride: must be an integer between 1 and "},
      {{ten, "--data", a, "--batch", "0"}, "--batch: must be an integer between 1 and "},
      {{ten, "--data", a, "--precision", "half"}, "--precision: must be one of ieee"},
      {{ten, "--data", a, "--json", in["other.json"]}, in["other.json"] + ": a new or an empty"},
      {{ten, "--data", a, "--json", in["text"]}, "--json must be a file, got folder"},
      {{ten, "--data", a, "--json", in["a.bin/x.json"]}, "--json must lie in a folder, but "},
      {{ten, "--data", a, "--tokenizer", in["none.json"]}, in["none.json"]},
      {{ten, "--data", a, "--tokeniser", "x"}, "not expected: --tokeniser; did you mean"},
  };
  for (const bad& each : cases) {
    const std::string seen = refusal(in, each.arguments);
    INFO(seen << "\nwanted: " << each.text);
    CHECK(seen.rfind(each.text, 0) == 0);
  }
}

TEST_CASE("gpt2_eval: help and version") {
  const program_result help = evaluate({"--help"});
  CHECK(help.status == 0);
  for (const char* option : {"MODEL", "--data", "--hellaswag", "--tokenizer", "--sequence",
                             "--stride", "--batch", "--backend", "--precision", "--json"}) {
    CHECK(help.output.find(option) != std::string::npos);
  }
  CHECK(evaluate({"--version"}).output.rfind("gpt2_eval of llmc ", 0) == 0);
}
