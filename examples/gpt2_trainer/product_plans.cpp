#include "product_plans.hpp"

#include <chrono>
#include <cstdio>

#include <llmc/error.hpp>

#include "gpt2/files/file.hpp"
#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

void load(product_tuner& products, const std::string& text, const std::string& name) {
  try {
    products.load_plans(text, name);
  } catch (const llmc::invalid_argument& error) {
    throw input_error(std::string(error.what()) +
                      "; --plans with another file, or off, does without these plans, but then "
                      "losses differ in their last digits");
  }
}

}  // namespace

fs::path plan_file(const run_options& o) {
  if (o.plans == no_plans) return {};
  if (!o.plans.empty()) return o.plans;
  return *o.checkpoint_every > 0 ? fs::path(o.out) / "product_plans.txt" : fs::path();
}

void load_plans(product_tuner& products, const run_options& o,
                const std::optional<training_state>& resumed) {
  if (o.plans == no_plans) return;
  // The plans lie in the state, too, so that a lost or changed file cannot change the run.
  if (resumed && !resumed->plans.empty() && options_from_json(resumed->options).plans == o.plans) {
    return load(products, resumed->plans, "product plans of the run that is resumed");
  }
  const fs::path path = plan_file(o);
  if (fs::exists(path)) load(products, read_file(path), path.string());
}

std::string tune_products(product_tuner& products, const run_options& o,
                          const std::function<void()>& step) {
  using clock = std::chrono::steady_clock;
  const clock::time_point start = clock::now();
  const std::string before = products.plans();
  products.tune(step);
  const std::string after = products.plans();
  if (after == before) return "";

  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f",
                std::chrono::duration<double>(clock::now() - start).count());
  const fs::path path = plan_file(o);
  if (!path.empty()) write_file(path, after);
  return "Timed the matrix products for " + std::string(seconds) + " s" +
         (path.empty() ? "" : "; plans in " + path.string());
}

}  // namespace gpt2_trainer
