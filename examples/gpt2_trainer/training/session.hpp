/// @file
/// What training and measuring have in common: a model on its machine, and what is said of it.
#pragma once

#include "gpt2/run/report.hpp"
#include "gpt2/run/stop_request.hpp"
#include "gpt2_trainer/setup.hpp"
#include "gpt2_trainer/training/step_queue.hpp"

namespace gpt2_trainer {

enum class run_end {
  done,
  not_logged,  ///< done, but the log is not complete
  stopped
};

struct session {
  session(run_setup begun_with, const stop_request& stop_when);
  session(const session&) = delete;
  session& operator=(const session&) = delete;

  /// Says what runs, with which memory, and times the matrix products that have no plan yet.
  void begin();
  /// `done`, unless the log is not complete.
  run_end end();
  /// Throws std::runtime_error if so many steps in a row, up to the latest, were skipped because a
  /// loss or a gradient norm was not finite.
  void require_sound(int skips) const;

  run_setup setup;
  const run_options& options;  ///< those of the setup
  const stop_request& stop;
  step_queue steps;
  report says;
};

}  // namespace gpt2_trainer
