/// @file
/// When a run writes checkpoints, and what happens when it cannot.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "gpt2/files/checkpoint.hpp"
#include "gpt2_trainer/training/session.hpp"

namespace gpt2_trainer {

/// The checkpoints of a training. Where parameters are not finite, and that is not allowed, the run
/// ends with a non_finite_error, with or without checkpoints.
class saver {
 public:
  explicit saver(session& of);

  /// Whether it is the step for a checkpoint, or the time.
  bool is_due() const;
  /// Writes a checkpoint of the steps that are done; none may be running. If that fails, the run
  /// goes on, and the next checkpoint that is due is the next attempt; the third failure in a row
  /// is a std::runtime_error.
  void save();
  /// Writes the last checkpoint, unless it is written. Throws std::runtime_error if it cannot be
  /// written, or if one before it could not.
  void finish();

 private:
  using clock = std::chrono::steady_clock;

  bool is_the_step() const;
  bool is_the_time() const;
  std::string attempt();
  void write();
  void remove_old();

  session& of_;
  bool wanted_;
  std::int64_t saved_;  ///< the step of the last checkpoint, or the one that the run began after
  clock::time_point last_attempt_ = clock::now();
  std::optional<checkpoint_paths> replaceable_;  ///< the last one, if it was only for the time
  std::string first_failure_;
  int failures_in_a_row_ = 0;
};

}  // namespace gpt2_trainer
