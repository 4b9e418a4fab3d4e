/// @file
/// A stream that is destroyed with its owner.
#pragma once

#include <cuda_runtime_api.h>

#include "gpt2/machine/cuda/cuda_check.hpp"

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

}  // namespace gpt2_trainer
