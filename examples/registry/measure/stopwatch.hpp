/// @file
/// Times work on the GPU with a cold L2 cache.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "registry/device_memory.hpp"

namespace llmc_registry {

struct timing {
  double us;      ///< median
  double spread;  ///< between the quartiles, as a share of the median
};

class stopwatch {
 public:
  /// Times the current device, on a stream of its own.
  explicit stopwatch(int repeats);
  /// Times on that stream; nullptr is the default one.
  stopwatch(int repeats, cudaStream_t stream);
  ~stopwatch();
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;

  using work = std::function<void(cudaStream_t)>;

  /// Times `launch`, after two runs to warm up. Before each run `prepare` is called and a buffer of
  /// twice the L2 cache is overwritten; the events are round `launch` alone.
  timing time(
      const work& launch, const work& prepare = [](cudaStream_t) {}) const;

  /// Keeps the GPU at work until its clock has risen again after a pause.
  void wake() const;

  cudaStream_t stream() const { return stream_; }

 private:
  struct event_pair {
    cudaEvent_t begin;
    cudaEvent_t end;
  };

  llmc_test::stream own_;
  cudaStream_t stream_ = own_;
  llmc_test::buffer<unsigned char> flushed_;
  std::vector<event_pair> events_;
};

}  // namespace llmc_registry
