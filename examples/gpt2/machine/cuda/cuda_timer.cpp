#include "gpt2/machine/cuda/cuda_timer.hpp"

#include "gpt2/machine/cuda/cuda_check.hpp"

namespace gpt2_trainer {

cuda_timer::~cuda_timer() {
  for (const cudaEvent_t event : events_) cudaEventDestroy(event);
}

void cuda_timer::record() {
  if (used_ == events_.size()) {
    cudaEvent_t event = nullptr;
    check_cuda("cudaEventCreate", cudaEventCreate(&event));
    events_.push_back(event);
  }
  check_cuda("cudaEventRecord", cudaEventRecord(events_[used_++], stream_));
}

std::vector<double> cuda_timer::finish() {
  constexpr double seconds_per_millisecond = 1e-3;
  if (used_ > 0) check_cuda("a step", cudaEventSynchronize(events_[used_ - 1]));
  std::vector<double> seconds;
  for (std::size_t i = 0; i + 1 < used_; i += 2) {
    float milliseconds = 0;
    check_cuda("cudaEventElapsedTime",
               cudaEventElapsedTime(&milliseconds, events_[i], events_[i + 1]));
    seconds.push_back(seconds_per_millisecond * static_cast<double>(milliseconds));
  }
  used_ = 0;
  return seconds;
}

}  // namespace gpt2_trainer
