#include "gpt2/machine/call_profile.hpp"

#include "gpt2/machine/backend.hpp"

namespace gpt2_trainer {

call_profile::call_profile(machine& watched) : watched_(watched), timer_(watched.make_timer()) {}

call_profile::~call_profile() {
  watched_.watch(nullptr);
}

void call_profile::start() {
  watched_.watch(this);
}

void call_profile::end_step() {
  steps_.push_back(std::exchange(step_, {}));
}

std::vector<timed_step> call_profile::finish() {
  watched_.watch(nullptr);
  const std::vector<double> seconds = timer_->finish();
  auto next = seconds.begin();
  for (timed_step& step : steps_) {
    for (timed_call& call : step) call.seconds = *next++;
  }
  step_.clear();
  return std::exchange(steps_, {});
}

}  // namespace gpt2_trainer
