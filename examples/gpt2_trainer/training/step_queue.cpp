#include "gpt2_trainer/training/step_queue.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "gpt2/run/schedule.hpp"

namespace gpt2_trainer {
namespace {

constexpr float adamw_epsilon = 1e-8f;

}  // namespace

step_queue::step_queue(run_setup& setup)
    : options_(setup.options),
      micro_batches_(
          static_cast<int>(*options_.total_batch / (*options_.batch * *options_.sequence))),
      model_(setup.config, *setup.machine, *options_.batch, *options_.sequence,
             {options_.recompute == recompute_choice::gelu}),
      loader_(*setup.data.training, *options_.batch, *options_.sequence, options_.order,
              options_.seed),
      tokens_(static_cast<std::size_t>(*options_.batch * *options_.sequence)),
      targets_(tokens_.size()) {
  model_.set_parameters(setup.parameters);
  setup.parameters = {};
  if (!setup.state) return;
  model_.set_moments(setup.state->moments);
  setup.state->moments = {};
  loader_.restore(setup.state->loader);
  place_ = loader_.state();
  done_ = setup.state->step;
}

void step_queue::rehearse() {
  batch_loader ahead = loader_;
  ahead.next(tokens_.data(), targets_.data());
  for (int micro_batch = 0; micro_batch < std::min(micro_batches_, 2); ++micro_batch) {
    model_.forward_backward(tokens_.data(), targets_.data(), *options_.batch, *options_.sequence,
                            micro_batch, micro_batches_);
  }
}

std::optional<finished_step> step_queue::next() {
  queued_step step = queue();
  ++done_;
  place_ = loader_.state();
  std::optional<queued_step> before = std::exchange(running_, std::move(step));
  if (before) return wait_for(std::move(*before));
  return running_->pending.is_over() ? finish() : std::nullopt;
}

std::optional<finished_step> step_queue::finish() {
  std::optional<queued_step> step = std::exchange(running_, std::nullopt);
  if (!step) return std::nullopt;
  return wait_for(std::move(*step));
}

step_queue::queued_step step_queue::queue() {
  const clock::time_point begin = clock::now();
  const std::int64_t number = done_ + 1;
  const double rate = learning_rate(schedule_of(options_), number);
  const std::int64_t batch = *options_.batch;
  const std::int64_t sequence = *options_.sequence;
  const int last = micro_batches_ - 1;
  for (int micro_batch = 0; micro_batch < last; ++micro_batch) {
    loader_.next(tokens_.data(), targets_.data());
    look_for_the_end();
    model_.forward_backward(tokens_.data(), targets_.data(), batch, sequence, micro_batch,
                            micro_batches_);
  }
  loader_.next(tokens_.data(), targets_.data());
  look_for_the_end();
  return {model_.step(tokens_.data(), targets_.data(), batch, sequence, last, micro_batches_,
                      {options_.beta1, options_.beta2, adamw_epsilon, options_.weight_decay,
                       static_cast<float>(rate), options_.clip, number}),
          number, rate, begin, std::nullopt};
}

/// Queueing many micro-batches may take longer than the step that still runs, whose time must not
/// grow by that.
void step_queue::look_for_the_end() {
  if (running_ && !running_->end && running_->pending.is_over()) running_->end = clock::now();
}

finished_step step_queue::wait_for(queued_step step) {
  const step_result result = step.pending.wait();
  skips_in_a_row_ = result.finite ? 0 : skips_in_a_row_ + 1;
  // A step that was queued behind another one begins when that one ends.
  const clock::time_point begin = std::max(step.begin, last_end_);
  last_end_ = step.end.value_or(clock::now());
  return {result, step.number, step.learning_rate,
          std::chrono::duration<double>(last_end_ - begin).count()};
}

}  // namespace gpt2_trainer
