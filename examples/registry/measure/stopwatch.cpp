#include "registry/measure/stopwatch.hpp"

#include <algorithm>
#include <chrono>

namespace llmc_registry {
namespace {

using llmc_test::check_cuda;

std::int64_t l2_bytes() {
  int device = 0, bytes = 0;
  check_cuda(cudaGetDevice(&device));
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device));
  return bytes;
}

}  // namespace

stopwatch::stopwatch(int repeats) : flushed_(2 * l2_bytes()) {
  events_.resize(static_cast<std::size_t>(repeats));
  for (event_pair& e : events_) {
    check_cuda(cudaEventCreate(&e.begin));
    check_cuda(cudaEventCreate(&e.end));
  }
}

stopwatch::stopwatch(int repeats, cudaStream_t stream) : stopwatch(repeats) {
  stream_ = stream;
}

stopwatch::~stopwatch() {
  for (const event_pair& e : events_) {
    cudaEventDestroy(e.begin);
    cudaEventDestroy(e.end);
  }
}

timing stopwatch::time(const work& launch, const work& prepare) const {
  constexpr int warm_ups = 2;
  for (int i = 0; i < warm_ups; ++i) {
    prepare(stream_);
    launch(stream_);
  }
  for (const event_pair& e : events_) {
    prepare(stream_);
    check_cuda(cudaMemsetAsync(flushed_, 0, flushed_.size(), stream_));
    check_cuda(cudaEventRecord(e.begin, stream_));
    launch(stream_);
    check_cuda(cudaEventRecord(e.end, stream_));
  }
  check_cuda(cudaStreamSynchronize(stream_));

  std::vector<double> us;
  for (const event_pair& e : events_) {
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, e.begin, e.end));
    us.push_back(1000.0 * static_cast<double>(ms));
  }
  std::sort(us.begin(), us.end());
  const double median = us[us.size() / 2];
  return {median, (us[us.size() * 3 / 4] - us[us.size() / 4]) / median};
}

void stopwatch::wake() const {
  using clock = std::chrono::steady_clock;
  constexpr int at_once = 32;
  const auto end = clock::now() + std::chrono::milliseconds(200);
  while (clock::now() < end) {
    for (int i = 0; i < at_once; ++i) {
      check_cuda(cudaMemsetAsync(flushed_, 0, flushed_.size(), stream_));
    }
    check_cuda(cudaStreamSynchronize(stream_));
  }
}

}  // namespace llmc_registry
