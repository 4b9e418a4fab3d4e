#include "gpt2_trainer/options.hpp"

#include <limits>
#include <locale>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "../support/catch.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/run/option_table.hpp"
#include "gpt2_trainer/rules/defaults.hpp"
#include "temporary_folder.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

run_options parsed(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv{"gpt2_train"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return parse_options(static_cast<int>(argv.size()), argv.data(), {}).options;
}

std::string parse_refusal(const std::vector<std::string>& arguments) {
  return message_of([&] { parsed(arguments); });
}

/// Reads options that are saved but for a change.
template <class Change>
std::string refusal_after(Change change) {
  nlohmann::json saved = nlohmann::json::parse(to_json({}));
  change(saved);
  return message_of([&] { options_from_json(saved.dump()); });
}

}  // namespace

TEST_CASE("options: saved ones are read back as they were", "[options]") {
  run_options options;
  options.seed = 7;
  options.batch = 3;
  options.lr = 0.1f;
  options.order = token_order::sequential;
  options.prompt = "a \"b\"\n";
  options.val_fraction = 1.0 / 3;
  options.benchmark = 5;
  const run_options read = options_from_json(to_json(options));
  CHECK(to_json(read) == to_json(options));
  CHECK(read.seed == 7);
  CHECK(read.batch == 3);
  CHECK(read.lr == 0.1f);
  CHECK_FALSE(read.min_lr);
  CHECK(read.order == token_order::sequential);
  CHECK(read.prompt == options.prompt);
  CHECK(read.val_fraction == options.val_fraction);
  CHECK_FALSE(read.benchmark);  // belongs to no run
}

TEST_CASE("options: a saved one that is missing is refused by name", "[options]") {
  const nlohmann::json saved = nlohmann::json::parse(to_json({}));
  CHECK(saved.size() == 41);
  for (const auto& [name, value] : saved.items()) {
    CHECK(refusal_after([&](nlohmann::json& all) { all.erase(name); }) ==
          "the saved options must hold --" + name +
              ", got none (they are those of another version of this program)");
  }
}

TEST_CASE("options: a saved value is checked as one of the command line is", "[options]") {
  CHECK(refusal_after([](nlohmann::json& all) { all["batch"] = 0; }) ==
        "the saved --batch must be an integer between 1 and 1048576, got '0'");
  CHECK(refusal_after([](nlohmann::json& all) {
          all["clip"] = {1, 2};
        }) == "the saved --clip must be a text, or its bytes as {\"hex\": ...}, got array");
  CHECK(refusal_after([](nlohmann::json& all) { all["order"] = "random"; }) ==
        "the saved --order must be one of shuffled, sequential, got random");
}

TEST_CASE("options: numbers are whole and in base 10", "[options]") {
  const auto integer = [](const std::string& text) {
    return parse_number<std::int64_t>(text, {-3, 1000});
  };
  CHECK(integer("010") == 10);
  CHECK(integer("0777") == 777);
  CHECK(integer("08") == 8);
  CHECK(integer("-3") == -3);
  CHECK(parse_number<std::uint64_t>("18446744073709551615", {0}) == ~std::uint64_t{0});
  for (const char* bad :
       {"", " ", "1 ", " 5", "\t5", "+5", "0x1", "1e3", "1_0", "1,0", "1.0", "1001", "-4", "inf",
        "nan", "9223372036854775808", "--1", "1-", "\u0663"}) {
    INFO(bad);
    CHECK_THROWS_AS(integer(bad), input_error);
  }
  CHECK_THROWS_AS(integer(std::string("1\0", 2)), input_error);
  CHECK_THROWS_AS(parse_number<std::uint64_t>("-1", {0}), input_error);

  CHECK(parse_number<float>("1e-3", {0}) == 1e-3f);
  CHECK(parse_number<float>("010.5", {0}) == 10.5f);
  CHECK(parse_number<double>(".5E+1", {0}) == 5);
  for (const char* bad : {"", "1x", " 1", "+1", "0x1p3", "1,5", "1_0", "nan", "inf", "-inf",
                          "infinity", "1e999", "1e-999", "-1", "1e", "."}) {
    INFO(bad);
    CHECK_THROWS_AS(parse_number<float>(bad, {0}), input_error);
    CHECK_THROWS_AS(parse_number<double>(bad, {0}), input_error);
  }
}

TEST_CASE("options: a number that its type cannot hold is refused", "[options]") {
  const auto refusal = [](auto range, const char* text) {
    return message_of([&] { parse_number(text, range); });
  };
  const std::string wanted =
      "must be a number at least 0, and 0 or of a size between 1.4013e-45 and 3.40282e+38, got ";
  for (const char* bad : {"1e-50", "1e39"}) {
    CHECK(refusal(number_range<float>{0}, bad) == wanted + "'" + bad + "'");
    CHECK(refusal(number_range<double>{0}, bad).empty());
  }
  CHECK(refusal(number_range<std::int64_t>{1}, "9223372036854775808") ==
        "must be an integer between 1 and 9223372036854775807, got '9223372036854775808'");
}

TEST_CASE("options: numbers are read and shown alike in every locale", "[options]") {
  struct german : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale(), new german));
  CHECK(parse_number<double>("1.5", {0}) == 1.5);
  CHECK(number_text<std::int64_t>(1234567) == "1234567");
  CHECK(number_text(0.5f) == "0.5");
  std::locale::global(before);
}

TEST_CASE("options: every number is read by these rules", "[options]") {
  for (const char* option : {"--val-fraction",
                             "--vocabulary",
                             "--layers",
                             "--heads",
                             "--channels",
                             "--context",
                             "--batch",
                             "-b",
                             "--sequence",
                             "-t",
                             "--total-batch",
                             "--steps",
                             "--seed",
                             "--lr",
                             "--min-lr",
                             "--warmup",
                             "--weight-decay",
                             "--beta1",
                             "--beta2",
                             "--clip",
                             "--val-every",
                             "--val-batches",
                             "--top-k",
                             "--sample-every",
                             "--sample-length",
                             "--temperature",
                             "--checkpoint-every",
                             "--benchmark",
                             "--profile"}) {
    for (const char* bad :
         {"+5", " 5", "5 ", "0x5", "1_000", "nan", "inf", "1e999", "1e-999", "five"}) {
      INFO(option << " " << bad);
      CHECK(parse_refusal({option, bad}).find("must be a") != std::string::npos);
    }
  }
  for (const char* option : {"--lr", "--min-lr", "--weight-decay", "--clip"}) {
    for (const char* bad : {"1e-50", "1e39"}) {
      INFO(option << " " << bad);
      CHECK(parse_refusal({option, bad}).find("of a size between") != std::string::npos);
    }
  }
  for (const char* bad : {"d", "d+8", "d 8", "d0x8", "d8.0", "d1e1", "12", "D12", "d012x", "d5",
                          "d49", "d-8", "gpt3:d12", "gpt3:c769", "gpt3:c5140", "gpt3"}) {
    const std::string refusal = parse_refusal({"--init", bad});
    CHECK(refusal.find("--init: must be one of d6 to d48, d60, d72, d84, gpt3:c384, ") == 0);
    CHECK(refusal.substr(refusal.rfind(", got ")) == std::string(", got ") + bad);
  }
  CHECK(parsed({"--init", "d012"}).init == "d012");
  CHECK(parsed({"--steps", "010"}).steps == 10);
  CHECK(parsed({"--seed", "0777"}).seed == 777);
  CHECK(parsed({"--warmup", "08"}).warmup == 8);
}

TEST_CASE("options: texts of any bytes are saved", "[options]") {
  run_options options;
  options.data = "/tmp/\xFF\xE4";
  options.log = std::string("/\xC3", 2);
  options.prompt = "gr\xC3\xBC\xC3\x9F";
  const run_options read = options_from_json(to_json(options));
  CHECK(read.data == options.data);
  CHECK(read.log == options.log);
  CHECK(read.prompt == options.prompt);
  for (const nlohmann::json& bad :
       {nlohmann::json{{"hex", "f"}}, nlohmann::json{{"hex", "FF"}}, nlohmann::json{{"hex", 1}},
        nlohmann::json::object(), nlohmann::json(true)}) {
    CHECK(refusal_after([&](nlohmann::json& all) {
            all["data"] = bad;
          }).find("the saved --data must be a text, or its bytes as {\"hex\": ...}, got ") == 0);
  }
}

TEST_CASE("options: what follows from other options follows them anew", "[options]") {
  const gpt2_config config{64, 256, 256, 2, 4, 64};
  run_options saved;
  saved.steps = 100;
  choose_defaults(saved, config, cpu_default, true);
  CHECK(with_derived(saved).warmup == 10);
  CHECK(with_derived(saved).prompt == "/// The ");

  // As a resumed run reads it, but for one option.
  const auto resumed_with = [&](auto change) {
    run_options now = options_from_json(to_json(saved));
    change(now);
    return with_derived(now);
  };
  const auto slower = resumed_with([](run_options& o) { o.lr = 1e-3f; });
  CHECK(slower.min_lr == 1e-4f);
  const auto longer = resumed_with([](run_options& o) { o.steps = 1000; });
  CHECK(longer.warmup == 100);
  CHECK(longer.val_every == 250);
  CHECK(longer.sample_every == 1000);
  CHECK(longer.checkpoint_every == 1000);
  CHECK(longer.lr == saved.lr);
  const auto larger = resumed_with([](run_options& o) { o.batch = 3; });
  CHECK(larger.total_batch == 3 * 64);
  const auto other = resumed_with([](run_options& o) { o.data = "x"; });
  CHECK(other.prompt == "\n");

  // What was given stays.
  saved.min_lr = 1e-5f;
  saved.warmup = 7;
  saved.val_every = 9;
  const auto given = resumed_with([](run_options& o) {
    o.lr = 1e-3f;
    o.steps = 1000;
  });
  CHECK(given.min_lr == 1e-5f);
  CHECK(given.warmup == 7);
  CHECK(given.val_every == 9);

  // What follows from the machine is what it was on the first one.
  run_options elsewhere = options_from_json(to_json(saved));
  choose_defaults(elsewhere, config, gpu_default, true);
  CHECK(to_json(elsewhere) == to_json(saved));

  run_options longest;
  longest.steps = std::numeric_limits<std::int64_t>::max();
  choose_defaults(longest, config, cpu_default, true);
  CHECK(*with_derived(longest).val_every > 0);
}

TEST_CASE("options: changes are named with both values", "[options]") {
  run_options before;
  before.steps = 10;
  run_options now = before;
  CHECK(changed_options(before, now).empty());
  now.steps = 20;
  now.lr = 0.1f;
  now.benchmark = 5;  // belongs to no run
  CHECK(changed_options(before, now).dump() ==
        R"({"lr":{"from":null,"to":0.1},"steps":{"from":10,"to":20}})");
}

TEST_CASE("options: a slip is told from another word", "[options]") {
  const auto not_expected = [](const std::string& seen, const std::string& meant) {
    return "not expected: " + seen + (meant.empty() ? "" : "; did you mean " + meant + "?") +
           " (--help lists the options)";
  };
  for (const auto& [typed, meant] :
       std::vector<std::pair<std::string, std::string>>{{"--step", "--steps"},
                                                        {"--step=10", "--steps"},
                                                        {"-step", "--steps"},
                                                        {"--Steps", "--steps"},
                                                        {"--setps", "--steps"},
                                                        {"--weight_decay", "--weight-decay"},
                                                        {"--batch-size", "--batch"},
                                                        {"--warm", "--warmup"},
                                                        {"--beta", "--beta1 or --beta2"},
                                                        {"--sequnce", "--sequence"},
                                                        {"--top_k", "--top-k"},
                                                        {"--vers", "--version"},
                                                        {"--frobnicate", ""},
                                                        {"--xy", ""}}) {
    INFO(typed);
    CHECK(parse_refusal({typed, "10"}) == not_expected(typed.substr(0, typed.find('=')), meant));
  }
  CHECK(
      parse_refusal({"--schedule", "cosin"}) ==
      "--schedule: must be one of cosine, linear, constant, wsd, got cosin; did you mean cosine?");
  CHECK(parse_refusal({"--order", "suffled"}).find("; did you mean shuffled?") !=
        std::string::npos);
  CHECK(parse_refusal({"--precision", "tf32x"}).find("; did you mean tf32 or tf32x3?") !=
        std::string::npos);
  CHECK(parse_refusal({"--backend", "cdua"}).find("; did you mean cuda?") != std::string::npos);
  CHECK(parse_refusal({"--recompute", "glu"}).find("; did you mean gelu?") != std::string::npos);
  CHECK(parse_refusal({"--schedule", "foo"}).find("did you mean") == std::string::npos);
}

TEST_CASE("options: what the shell made of a pattern or a text is told", "[options]") {
  const std::string told =
      "not expected: lic/b (--data takes one value; a pattern must be quoted, as in --data "
      "'*.txt', "
      "or the shell puts all names that match in its place)";
  CHECK(parse_refusal({"--data", "lic/a", "lic/b", "lic/c"}) == told);
  CHECK(parse_refusal({"--steps", "3", "--data", "lic/a", "lic/b", "--seed", "1"}) == told);
  CHECK(parse_refusal({"--prompt", "Once", "upon"}) ==
        "not expected: upon (--prompt takes one value; one with spaces must be quoted)");
  CHECK(parse_refusal({"-b", "1", "2"}).find("not expected: 2 (--batch takes one value") == 0);
  CHECK(parse_refusal({"extra"}) == "not expected: extra (--help lists the options)");
}
