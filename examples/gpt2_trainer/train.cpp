#include "gpt2_trainer/train.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "gpt2/input_error.hpp"
#include "gpt2/model/operations.hpp"
#include "gpt2_trainer/training/evaluation.hpp"
#include "gpt2_trainer/training/measuring.hpp"
#include "gpt2_trainer/training/saving.hpp"
#include "gpt2_trainer/training/session.hpp"

namespace gpt2_trainer {
namespace {

constexpr int most_skips_in_a_row = 10;

class training {
 public:
  training(run_setup setup, const stop_request& stop)
      : session_(std::move(setup), stop), saver_(session_), last_(*session_.options.steps) {}

  run_end run() {
    session_.begin();
    session_.stop.listen();  // until here nothing is lost if a signal ends the program at once
    session_.says.begin_steps();
    try {
      take_steps();
    } catch (const input_error& error) {  // data that were there at the start
      end_before(error);
    }
    saver_.finish();
    if (steps_.done() < last_) return stopped();
    session_.require_sound(1);
    if (!is_valid_) throw std::runtime_error("the loss of the last validation is not finite");
    return session_.stop.is_made() ? stopped() : session_.end();
  }

 private:
  void take_steps() {
    while (steps_.done() < last_ && !session_.stop.is_made()) {
      follow(steps_.next());
      const bool saves = saver_.is_due();
      const bool validates = is_due(*session_.options.val_every);
      const bool samples = is_due(*session_.options.sample_every);
      if (saves || validates || samples) follow(steps_.finish());
      // First of all, since the others take long and may be interrupted.
      if (saves) saver_.save();
      if (validates) is_valid_ = validate(session_);
      if (samples) sample(session_);
    }
    follow(steps_.finish());
  }

  bool is_due(std::int64_t every) const {
    return every > 0 && (steps_.done() % every == 0 || steps_.done() == last_);
  }

  void follow(const std::optional<finished_step>& step) {
    if (!step) return;
    // The first step also pays for what is made once, so the time of the second replaces its own.
    mean_seconds_ = timed_++ < 2 ? step->seconds : 0.9 * mean_seconds_ + 0.1 * step->seconds;
    const std::int64_t tokens = *session_.options.total_batch;
    const double ideal = ideal_seconds(session_.setup.config, tokens, *session_.options.sequence,
                                       steps_.micro_batches(), session_.setup.machine->peak());
    session_.says.step(
        {step->number, step->result.loss, step->result.gradient_norm, step->learning_rate,
         step->seconds, static_cast<double>(tokens) / step->seconds,
         ideal > 0 ? ideal / step->seconds : -1,
         mean_seconds_ * static_cast<double>(last_ - step->number), !step->result.finite});
    session_.require_sound(most_skips_in_a_row);
  }

  /// The steps that were done are saved before the run fails.
  [[noreturn]] void end_before(const input_error& error) {
    std::string reasons = error.what();
    try {
      follow(steps_.finish());
      saver_.finish();
    } catch (const std::exception& another) {
      reasons += std::string("; ") + another.what();
    }
    // No input_error, since that means that nothing was written.
    throw std::runtime_error(reasons);
  }

  run_end stopped() {
    session_.says.note("interrupted after step " + std::to_string(steps_.done()));
    return run_end::stopped;
  }

  session session_;
  step_queue& steps_ = session_.steps;
  saver saver_;
  std::int64_t last_;
  bool is_valid_ = true;  ///< what the last validation said
  std::int64_t timed_ = 0;
  double mean_seconds_ = 0;
};

}  // namespace

run_end train(run_setup setup, const stop_request& stop) {
  if (setup.options.benchmark) return benchmark(std::move(setup), stop);
  if (setup.options.profile) return profile(std::move(setup), stop);
  return training(std::move(setup), stop).run();
}

}  // namespace gpt2_trainer
