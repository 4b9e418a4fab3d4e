#include "gpt2_trainer/options.hpp"

#include <nlohmann/json.hpp>

#include "../support/catch.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/run/option_table.hpp"
#include "temporary_folder.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

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
  options.lr = 0.1;
  options.order = token_order::sequential;
  options.prompt = "a \"b\"\n";
  options.val_fraction = 1.0 / 3;
  options.benchmark = 5;
  const run_options read = options_from_json(to_json(options));
  CHECK(to_json(read) == to_json(options));
  CHECK(read.seed == 7);
  CHECK(read.batch == 3);
  CHECK(read.lr == 0.1);
  CHECK_FALSE(read.min_lr);
  CHECK(read.order == token_order::sequential);
  CHECK(read.prompt == options.prompt);
  CHECK(read.val_fraction == options.val_fraction);
  CHECK_FALSE(read.benchmark);  // belongs to no run
}

TEST_CASE("options: a saved one that is missing is refused by name", "[options]") {
  const nlohmann::json saved = nlohmann::json::parse(to_json({}));
  CHECK(saved.size() == 39);
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
        }) == "the saved --clip must be a number at least 0, got '[1,2]'");
  CHECK(refusal_after([](nlohmann::json& all) { all["order"] = "random"; }) ==
        "the saved --order must be one of shuffled, sequential, got random");
}

TEST_CASE("options: numbers are whole and in base 10", "[options]") {
  CHECK(parse_integer("010", {0}) == 10);
  CHECK(parse_integer("-3", {-3, 4}) == -3);
  CHECK(parse_number("1e-3", {0, 1}) == 1e-3);
  for (const char* bad : {"", " ", "1 ", "0x1", "1e3", "5", "9223372036854775808"}) {
    CHECK_THROWS_AS(parse_integer(bad, {0, 4}), input_error);
  }
  CHECK_THROWS_AS(parse_integer(std::string("1\0", 2), {0}), input_error);
  for (const char* bad : {"", "1x", "nan", "inf", "1e999"}) {
    CHECK_THROWS_AS(parse_number(bad, {0}), input_error);
  }
}
