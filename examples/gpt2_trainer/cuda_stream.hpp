/// @file
/// Streams and what orders them.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda_check.hpp"

namespace gpt2_trainer {

/// A stream that does not wait for the default one.
class cuda_stream {
 public:
  cuda_stream() {
    check_cuda("cudaStreamCreateWithFlags",
               cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  ~cuda_stream() { cudaStreamDestroy(stream_); }
  cuda_stream(const cuda_stream&) = delete;
  cuda_stream& operator=(const cuda_stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Lets one stream wait for what another one was given so far; also within a graph.
class cuda_order {
 public:
  cuda_order() {
    check_cuda("cudaEventCreateWithFlags",
               cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  ~cuda_order() { cudaEventDestroy(event_); }
  cuda_order(const cuda_order&) = delete;
  cuda_order& operator=(const cuda_order&) = delete;

  void put(cudaStream_t later, cudaStream_t behind) {
    check_cuda("cudaEventRecord", cudaEventRecord(event_, behind));
    check_cuda("cudaStreamWaitEvent", cudaStreamWaitEvent(later, event_, 0));
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace gpt2_trainer
