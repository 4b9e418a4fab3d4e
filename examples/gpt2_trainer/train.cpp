#include "train.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "benchmark.hpp"
#include "gpt2/data/dataset.hpp"
#include "gpt2/machine/call_profile.hpp"
#include "gpt2/model/gpt2.hpp"
#include "gpt2/model/operations.hpp"
#include "gpt2/run/report.hpp"
#include "gpt2/run/schedule.hpp"
#include "product_plans.hpp"
#include "profile.hpp"
#include "report/sample.hpp"
#include "report/settings.hpp"

namespace gpt2_trainer {
namespace {

constexpr int most_skips_in_a_row = 10;
constexpr float adamw_epsilon = 1e-8f;

bool is_due(std::int64_t step, std::int64_t every, std::int64_t steps) {
  return every > 0 && (step % every == 0 || step == steps);
}

/// One run: what `train` sets up once, and the steps of its loop.
class run {
 public:
  explicit run(run_setup setup)
      : setup_(std::move(setup)),
        options_(setup_.options),
        batch_(*options_.batch),
        sequence_(*options_.sequence),
        micro_batches_(static_cast<int>(*options_.total_batch / (batch_ * sequence_))),
        steps_(*options_.steps),
        model_(setup_.config, *setup_.machine, batch_, sequence_,
               {options_.recompute == recompute_choice::gelu}),
        loader_(*setup_.data.training, batch_, sequence_, options_.order, options_.seed),
        report_(options_.log, setup_.state.has_value()),
        tokens_(static_cast<std::size_t>(batch_ * sequence_)),
        targets_(tokens_.size()) {
    model_.set_parameters(setup_.parameters);
    setup_.parameters = {};
    if (!setup_.state) return;
    model_.set_moments(setup_.state->moments);
    loader_.restore(setup_.state->loader);
    done_ = setup_.state->step;
    setup_.state->moments = {};
  }

  run_end loop(const volatile std::sig_atomic_t& interrupted) {
    introduce();
    if (*options_.checkpoint_every > 0) std::filesystem::create_directories(setup_.out);
    tune();
    report_.begin_steps();
    while (done_ < steps_ && interrupted == 0) {
      train_step();
      if (is_anything_due()) finish_step();
      if (is_due(done_, *options_.val_every, steps_)) validate_model();
      if (is_due(done_, *options_.sample_every, steps_)) sample();
      if (is_due(done_, *options_.checkpoint_every, steps_)) save();
    }
    finish_step();
    if (done_ == steps_) return run_end::done;
    const bool saved = done_ % std::max<std::int64_t>(*options_.checkpoint_every, 1) == 0;
    if (*options_.checkpoint_every > 0 && !saved) save();
    report_.note("interrupted after step " + std::to_string(done_));
    return run_end::interrupted;
  }

  run_end benchmark(const volatile std::sig_atomic_t& interrupted) {
    introduce();
    tune();
    const std::vector<double> seconds = time_steps(steps_, interrupted);
    if (done_ < steps_) return run_end::interrupted;
    const std::int64_t tokens = *options_.total_batch;
    const benchmark_result result{setup_.machine->description(),
                                  setup_.config,
                                  batch_,
                                  sequence_,
                                  tokens,
                                  model_operations(setup_.config, tokens, sequence_),
                                  setup_.machine->peak(),
                                  model_.memory_plan(),
                                  seconds};
    report_.settings(benchmark_table(result));
    if (!options_.benchmark_json.empty()) write_benchmark(options_.benchmark_json, result);
    return run_end::done;
  }

  /// `ceilings` is what the machine reached.
  run_end profile(const measured_rates& ceilings, const volatile std::sig_atomic_t& interrupted) {
    call_profile calls(*setup_.machine);
    introduce();
    tune();
    const std::vector<double> seconds = time_steps(steps_ - *options_.profile, interrupted);
    calls.start();
    while (done_ < steps_ && interrupted == 0) {
      std::optional<queued_step> step = queue_step();
      calls.end_step();
      exchange(std::move(step));
    }
    exchange(std::nullopt);
    if (done_ < steps_) return run_end::interrupted;
    const profile_result result{
        setup_.machine->description(), setup_.config, batch_,         sequence_,
        *options_.total_batch,         ceilings,      calls.finish(), seconds};
    report_.note(profile_table(result));
    if (!options_.profile_json.empty()) write_profile(options_.profile_json, result);
    return run_end::done;
  }

 private:
  using clock = std::chrono::steady_clock;

  struct queued_step {
    pending_step pending;
    std::int64_t number;
    double learning_rate;
    clock::time_point begin;
  };
  struct finished_step {
    step_result result;
    std::int64_t number;
    double learning_rate;
    double seconds;
  };

  /// Runs steps up to `last`. Returns the seconds of each but those of the warm-up.
  std::vector<double> time_steps(std::int64_t last, const volatile std::sig_atomic_t& interrupted) {
    std::vector<double> seconds;
    const auto keep = [&](const std::optional<finished_step>& step) {
      if (step && step->number > warm_up_steps) seconds.push_back(step->seconds);
    };
    while (done_ < last && interrupted == 0) keep(exchange(queue_step()));
    keep(exchange(std::nullopt));
    return seconds;
  }

  /// Times the products of a step, without an update. The batch comes from a copy of the loader, so
  /// training does not miss it. The first step overwrites the gradients that this leaves.
  void tune() {
    product_tuner* const products = setup_.machine->products();
    if (products == nullptr || options_.plans == no_plans) return;
    batch_loader ahead = loader_;
    ahead.next(tokens_.data(), targets_.data());
    const int kinds = std::min(micro_batches_, 2);  // one that overwrites, one that adds
    const std::string done = tune_products(*products, options_, [&] {
      for (int micro_batch = 0; micro_batch < kinds; ++micro_batch) {
        model_.forward_backward(tokens_.data(), targets_.data(), batch_, sequence_, micro_batch,
                                micro_batches_);
      }
    });
    if (!done.empty()) report_.note(done + "\n");
  }

  void introduce() {
    if (!setup_.machine_note.empty()) {
      report_.note("No GPU: training on the CPU reference (" + setup_.machine_note + ").");
    }
    report_.settings(settings_table(setup_, loader_.windows()));
    report_.memory(model_.memory_plan());
  }

  queued_step queue_step() {
    const clock::time_point begin = clock::now();
    ++done_;
    const double rate = learning_rate(
        {options_.schedule, *options_.lr, *options_.min_lr, *options_.warmup, steps_}, done_);
    const int last = micro_batches_ - 1;
    for (int micro_batch = 0; micro_batch < last; ++micro_batch) {
      loader_.next(tokens_.data(), targets_.data());
      model_.forward_backward(tokens_.data(), targets_.data(), batch_, sequence_, micro_batch,
                              micro_batches_);
    }
    loader_.next(tokens_.data(), targets_.data());
    return {model_.step(tokens_.data(), targets_.data(), batch_, sequence_, last, micro_batches_,
                        {static_cast<float>(options_.beta1), static_cast<float>(options_.beta2),
                         adamw_epsilon, static_cast<float>(options_.weight_decay),
                         static_cast<float>(rate), static_cast<float>(options_.clip), done_}),
            done_, rate, begin};
  }

  /// Leaves a step to be waited for later, and waits for the one that was left before.
  std::optional<finished_step> exchange(std::optional<queued_step> next) {
    std::optional<queued_step> step = std::exchange(waiting_, std::move(next));
    if (!step) return std::nullopt;
    const step_result result = step->pending.wait();
    // A step that was queued behind another one begins when that one ends.
    const clock::time_point begin = std::max(step->begin, last_end_);
    last_end_ = clock::now();
    return finished_step{result, step->number, step->learning_rate,
                         std::chrono::duration<double>(last_end_ - begin).count()};
  }

  /// Queues a step, and reports the step before it while this one runs.
  void train_step() { follow(exchange(queue_step())); }
  void finish_step() { follow(exchange(std::nullopt)); }

  bool is_anything_due() const {
    return is_due(done_, *options_.val_every, steps_) ||
           is_due(done_, *options_.sample_every, steps_) ||
           is_due(done_, *options_.checkpoint_every, steps_);
  }

  void follow(const std::optional<finished_step>& step) {
    if (!step) return;
    report_step(*step);
    skips_in_a_row_ = step->result.finite ? 0 : skips_in_a_row_ + 1;
    if (skips_in_a_row_ == most_skips_in_a_row) {
      throw std::runtime_error("loss or gradient norm was not finite in " +
                               std::to_string(most_skips_in_a_row) +
                               " steps in a row, up to step " + std::to_string(step->number));
    }
  }

  void report_step(const finished_step& step) {
    // The first step also pays for what is made once, so the time of the second replaces its own.
    mean_seconds_ = timed_steps_++ < 2 ? step.seconds : 0.9 * mean_seconds_ + 0.1 * step.seconds;
    const std::int64_t tokens = *options_.total_batch;
    const double ideal =
        ideal_seconds(setup_.config, tokens, sequence_, micro_batches_, setup_.machine->peak());
    report_.step({step.number, step.result.loss, step.result.gradient_norm, step.learning_rate,
                  step.seconds, static_cast<double>(tokens) / step.seconds,
                  ideal > 0 ? ideal / step.seconds : -1,
                  mean_seconds_ * static_cast<double>(steps_ - step.number), !step.result.finite});
  }

  void validate_model() {
    if (!setup_.data.validation) return;
    const evaluation_set set(*setup_.data.validation, batch_, sequence_, options_.val_batches);
    loss_sum total{0, 0};
    for (std::size_t i = 0; i < set.size(); ++i) {
      const evaluation_batch part = set[i];
      const loss_sum sum = model_.evaluate(part.tokens.data(), part.targets.data(), part.b, part.t);
      total.sum += sum.sum;
      total.tokens += sum.tokens;
    }
    report_.validation(done_, total.sum / static_cast<double>(total.tokens));
  }

  void sample() {
    report_.sample(done_, options_.prompt, sample_text(model_, options_, sequence_, done_));
  }

  std::string plans() const {
    const product_tuner* const products = setup_.machine->products();
    return products == nullptr || options_.plans == no_plans ? "" : products->plans();
  }

  void save() {
    training_state state;
    state.step = done_;
    state.loader = loader_.state();
    state.data = data_record_to_json(setup_.data.training->files());
    state.options = to_json(options_);
    state.plans = plans();
    state.moments = model_.moments();
    const model_file model{setup_.config, model_.parameters()};
    state.model = model_checksum(model.parameters);
    const checkpoint_paths paths = checkpoint_at(setup_.out, done_);
    write_checkpoint(paths, model, state);
    report_.checkpoint(done_, paths.model.string(), paths.state.string(), done_ == steps_);
  }

  run_setup setup_;
  const run_options& options_;
  std::int64_t batch_;
  std::int64_t sequence_;
  int micro_batches_;
  std::int64_t steps_;
  gpt2<float> model_;
  batch_loader loader_;
  report report_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> targets_;
  std::int64_t done_ = 0;  ///< steps that were queued
  std::optional<queued_step> waiting_;
  clock::time_point last_end_{};
  std::int64_t timed_steps_ = 0;
  double mean_seconds_ = 0;
  int skips_in_a_row_ = 0;
};

run_end profile(run_setup setup, const volatile std::sig_atomic_t& interrupted) {
  const measured_rates ceilings =
      setup.machine->measure_rates();  // before a model takes the memory
  return run(std::move(setup)).profile(ceilings, interrupted);
}

}  // namespace

run_end train(run_setup setup, const volatile std::sig_atomic_t& interrupted) {
  if (setup.options.profile) return profile(std::move(setup), interrupted);
  const bool timed = setup.options.benchmark.has_value();
  run started(std::move(setup));
  return timed ? started.benchmark(interrupted) : started.loop(interrupted);
}

}  // namespace gpt2_trainer
