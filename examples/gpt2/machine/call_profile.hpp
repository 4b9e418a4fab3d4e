/// @file
/// The calls of some steps, and how long each takes.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "registry/costs.hpp"

namespace gpt2_trainer {

class machine;

/// Times stretches of calls where they run.
class call_timer {
 public:
  virtual ~call_timer() = default;

  /// What is called between `begin` and `end` is a stretch. It begins when all before it is over.
  virtual void begin() = 0;
  virtual void end() = 0;
  /// Waits for the stretches so far. Their seconds, in order; the next ones are counted anew.
  virtual std::vector<double> finish() = 0;
};

struct timed_call {
  std::string name;  ///< the layer (for products with their extents) or the kind of transfer
  llmc_registry::call_cost cost;
  double seconds;
};
using timed_step = std::vector<timed_call>;

/// From `start` to `finish` each call of a machine is timed. So no call is replayed from a
/// recording, and a call that is several kernels is made part by part.
class call_profile {
 public:
  /// The machine must outlive the profile.
  explicit call_profile(machine& watched);
  ~call_profile();
  call_profile(const call_profile&) = delete;
  call_profile& operator=(const call_profile&) = delete;

  void start();
  /// All calls since the end of the step before are a step.
  void end_step();
  /// Waits for the calls. Those after the last step's end are not in it.
  std::vector<timed_step> finish();

  /// For the machine: makes and times one call.
  template <class Call>
  void time(std::string name, llmc_registry::call_cost cost, Call call) {
    timer_->begin();
    call();
    timer_->end();
    step_.push_back({std::move(name), cost, 0});
  }

 private:
  machine& watched_;
  std::unique_ptr<call_timer> timer_;
  timed_step step_;  ///< calls whose step is not over
  std::vector<timed_step> steps_;
};

}  // namespace gpt2_trainer
