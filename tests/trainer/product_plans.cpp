#include "gpt2_trainer/product_plans.hpp"

#include <llmc/error.hpp>

#include "../support/catch.hpp"
#include "gpt2/files/file.hpp"
#include "temporary_folder.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

namespace fs = std::filesystem;

/// Its plans are a word; tuning finds one where there is none.
class fake_tuner : public product_tuner {
 public:
  void tune(const std::function<void()>& step) override {
    step();
    if (plans_ == nothing) plans_ = "tuned";
  }
  std::string plans() const override { return plans_; }
  void load_plans(const std::string& text, const std::string& name) override {
    if (text == "foreign") throw llmc::invalid_argument(name + ", line 1: wanted another card");
    plans_ = text;
  }

 private:
  static constexpr const char* nothing = "nothing";
  std::string plans_ = nothing;
};

run_options options_in(const fs::path& folder) {
  run_options options;
  options.out = (folder / "run").string();
  options.checkpoint_every = 10;
  return options;
}

std::string plans_after_loading(const run_options& options,
                                const std::optional<training_state>& resumed = {}) {
  fake_tuner products;
  load_plans(products, options, resumed);
  return products.plans();
}

std::optional<training_state> state_with(const std::string& plans, const run_options& options) {
  training_state state;
  state.plans = plans;
  state.options = to_json(options);
  return state;
}

}  // namespace

TEST_CASE("product plans: the file is the named one, or lies beside the checkpoints", "[plans]") {
  run_options options = options_in("/folder");
  CHECK(plan_file(options) == "/folder/run/product_plans.txt");
  options.plans = "/other/plans";
  CHECK(plan_file(options) == "/other/plans");
  options.checkpoint_every = 0;
  CHECK(plan_file(options) == "/other/plans");
  options.plans = "";
  CHECK(plan_file(options).empty());
  options.plans = no_plans;
  CHECK(plan_file(options).empty());
}

TEST_CASE("product plans: a run writes what it timed, and the next one reads it", "[plans]") {
  const temporary_folder folder;
  const run_options options = options_in(folder.path());
  int steps = 0;
  const auto step = [&] { ++steps; };

  fake_tuner first;
  load_plans(first, options, {});
  const std::string said = tune_products(first, options, step);
  CHECK(said.find("s; plans in " + plan_file(options).string()) != std::string::npos);
  CHECK(read_file(plan_file(options)) == "tuned");

  write_text(plan_file(options), "kept");
  fake_tuner second;
  load_plans(second, options, {});
  CHECK(tune_products(second, options, step).empty());
  CHECK(second.plans() == "kept");
  CHECK(read_file(plan_file(options)) == "kept");
  CHECK(steps == 2);
}

TEST_CASE("product plans: nothing is written where no file is named", "[plans]") {
  const temporary_folder folder;
  run_options options = options_in(folder.path());
  options.checkpoint_every = 0;
  fake_tuner products;
  CHECK(tune_products(products, options, [] {}).find("plans in") == std::string::npos);
  CHECK(products.plans() == "tuned");
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("product plans: a resumed run has those of its state, unless told otherwise", "[plans]") {
  const temporary_folder folder;
  const run_options before = options_in(folder.path());
  write_text(plan_file(before), "file");
  CHECK(plans_after_loading(before) == "file");
  CHECK(plans_after_loading(before, state_with("state", before)) == "state");
  CHECK(plans_after_loading(before, state_with("", before)) == "file");

  run_options now = before;
  now.plans = write_text(folder / "other", "other").string();
  CHECK(plans_after_loading(now, state_with("state", before)) == "other");
  now.plans = no_plans;
  CHECK(plans_after_loading(now, state_with("state", before)) == "nothing");
}

TEST_CASE("product plans: those of another machine are refused", "[plans]") {
  const temporary_folder folder;
  const run_options options = options_in(folder.path());
  const std::string path = write_text(plan_file(options), "foreign").string();
  const auto refusal = [&](const std::optional<training_state>& resumed) {
    return message_of([&] { plans_after_loading(options, resumed); });
  };
  const std::string rest =
      ", line 1: wanted another card; --plans with another file, or off, does without these "
      "plans, but then losses differ in their last digits";
  CHECK(refusal({}) == path + rest);
  CHECK(refusal(state_with("foreign", options)) ==
        "product plans of the run that is resumed" + rest);
}
