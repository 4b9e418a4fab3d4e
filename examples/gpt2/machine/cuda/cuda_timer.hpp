/// @file
/// Times stretches of a stream by pairs of events.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "gpt2/machine/backend.hpp"

namespace gpt2_trainer {

/// Events are made when they are first needed, and used again after `finish`.
class cuda_timer final : public call_timer {
 public:
  /// Times what that stream does, its waiting included.
  explicit cuda_timer(cudaStream_t stream) : stream_(stream) {}
  ~cuda_timer() override;
  cuda_timer(const cuda_timer&) = delete;
  cuda_timer& operator=(const cuda_timer&) = delete;

  void begin() override { record(); }
  void end() override { record(); }
  std::vector<double> finish() override;

 private:
  void record();

  cudaStream_t stream_;
  std::vector<cudaEvent_t> events_;
  std::size_t used_ = 0;  ///< of them, begin and end in turn
};

}  // namespace gpt2_trainer
