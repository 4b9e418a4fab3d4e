#include "gpt2_trainer/training/saving.hpp"

#include <exception>
#include <filesystem>
#include <ratio>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

constexpr int most_failures_in_a_row = 3;

/// The state first: without its model it would be a broken checkpoint.
void remove(const checkpoint_paths& paths) {
  std::error_code stays;  // costs room on the disk, nothing else
  fs::remove(paths.state, stays);
  fs::remove(paths.model, stays);
}

}  // namespace

saver::saver(session& of)
    : of_(of), wanted_(*of.options.checkpoint_every > 0), saved_(of.steps.done()) {}

bool saver::is_due() const {
  return wanted_ && (is_the_step() || is_the_time());
}

bool saver::is_the_step() const {
  const std::int64_t done = of_.steps.done();
  return done % *of_.options.checkpoint_every == 0 || done == *of_.options.steps;
}

bool saver::is_the_time() const {
  const std::chrono::duration<double, std::ratio<60>> minutes = clock::now() - last_attempt_;
  const double wanted = of_.options.checkpoint_minutes;
  return wanted > 0 && minutes.count() >= wanted;
}

void saver::save() {
  const std::string failure = attempt();
  if (failure.empty()) {
    failures_in_a_row_ = 0;
    return;
  }
  if (first_failure_.empty()) first_failure_ = failure;
  if (++failures_in_a_row_ == most_failures_in_a_row)
    throw std::runtime_error(failure + "; nor could the " +
                             std::to_string(most_failures_in_a_row - 1) + " before it");
  of_.says.note(failure + "; the run goes on");
}

void saver::finish() {
  std::string failure = first_failure_;
  if (saved_ != of_.steps.done()) failure = attempt();
  if (!failure.empty()) throw std::runtime_error(failure);
}

/// Returns what went wrong, if anything did that may go well another time.
std::string saver::attempt() {
  std::string failure;
  try {
    write();
  } catch (const non_finite_error&) {
    throw;  // nothing that trying again would mend
  } catch (const std::exception& error) {
    failure = "no checkpoint could be written after step " + std::to_string(of_.steps.done()) +
              ": " + error.what();
  }
  last_attempt_ = clock::now();
  return failure;
}

void saver::write() {
  const std::int64_t step = of_.steps.done();
  const model_file model{of_.setup.config, of_.steps.model().parameters()};
  if (!wanted_) {
    return require_finite<non_finite_error>("after step " + std::to_string(step) + " parameters",
                                            model.parameters, of_.options.non_finite);
  }

  training_state state;
  state.step = step;
  state.loader = of_.steps.place();
  state.data = data_record_to_json(of_.setup.data.training->files());
  state.options = to_json(of_.setup.saved);
  const product_tuner* const products = of_.setup.machine->products();
  if (products != nullptr && of_.options.plans != no_plans) state.plans = products->plans();
  state.moments = of_.steps.model().moments();
  const checkpoint_paths paths = checkpoint_at(of_.setup.out, step);
  write_checkpoint(paths, model, std::move(state), of_.options.non_finite);
  saved_ = step;
  of_.says.checkpoint(step, paths.model.string(), paths.state.string(), step == *of_.options.steps);

  // Earlier ones have served when a later one is there and can be trusted.
  const bool is_trusted = of_.steps.skips_in_a_row() == 0;
  if (replaceable_ && is_trusted) remove(*replaceable_);
  replaceable_.reset();
  if (!is_the_step()) {
    replaceable_ = paths;
  } else if (is_trusted) {
    remove_old();
  }
}

/// All but the last --keep and those of every --keep-every-th step.
void saver::remove_old() {
  const std::int64_t keep = of_.options.keep;
  const std::int64_t every = of_.options.keep_every;
  if (keep == 0) return;
  std::int64_t kept = 0;
  for (const std::int64_t step : steps_in(of_.setup.out)) {
    // A later one is not whole: the run that is resumed passed it over.
    if (step > of_.steps.done() || ++kept <= keep) continue;
    if (every == 0 || step % every != 0) remove(checkpoint_at(of_.setup.out, step));
  }
}

}  // namespace gpt2_trainer
