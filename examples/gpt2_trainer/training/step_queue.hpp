/// @file
/// The steps of a run, one after another, and how long each took.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "gpt2/data/dataset.hpp"
#include "gpt2/model/gpt2.hpp"
#include "gpt2_trainer/setup.hpp"

namespace gpt2_trainer {

struct finished_step {
  step_result result;
  std::int64_t number;
  double learning_rate;
  double seconds;
};

/// A model in training. On a machine that queues its calls, a step is queued while the one before
/// it runs, so that the machine never waits for the host.
class step_queue {
 public:
  /// Takes over the parameters and moments of the setup, which must outlive this object.
  explicit step_queue(run_setup& setup);

  gpt2<float>& model() { return model_; }
  const gpt2<float>& model() const { return model_; }
  /// Steps that were queued, those before a resumption included, and the place in the data after
  /// them.
  std::int64_t done() const { return done_; }
  const loader_state& place() const { return place_; }
  /// Of the steps that are over, the latest ones whose updates were skipped.
  int skips_in_a_row() const { return skips_in_a_row_; }

  /// Sequences of an epoch.
  std::int64_t windows() const { return loader_.windows(); }
  int micro_batches() const { return micro_batches_; }

  /// Makes the calls of a step but for the update, at most two micro-batches (one that overwrites,
  /// one that adds), on data that training will see again. The first step overwrites the gradients.
  void rehearse();

  /// Queues a step. Returns the latest step that is known to be over, if there is a new one.
  /// Throws input_error if the data cannot be read; `done`, `place` and the parameters are those of
  /// the step before then.
  std::optional<finished_step> next();
  /// Waits for the step that `next` left running, if there is one.
  std::optional<finished_step> finish();

 private:
  using clock = std::chrono::steady_clock;

  struct queued_step {
    pending_step pending;
    std::int64_t number;
    double learning_rate;
    clock::time_point begin;
    std::optional<clock::time_point> end;  ///< when it was first seen to be over
  };

  queued_step queue();
  void look_for_the_end();
  finished_step wait_for(queued_step step);

  const run_options& options_;
  int micro_batches_;
  gpt2<float> model_;
  batch_loader loader_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int32_t> targets_;
  std::int64_t done_ = 0;
  loader_state place_;
  std::optional<queued_step> running_;
  clock::time_point last_end_{};
  int skips_in_a_row_ = 0;
};

}  // namespace gpt2_trainer
