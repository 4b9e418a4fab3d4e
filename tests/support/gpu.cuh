/// @file
/// What every test on the GPU uses: guarded buffers, a stream of its own, and a runner that does
/// what a launcher's contract promises: the same bits again, and the same bits from a graph.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <llmc/types.hpp>

#include "catch.hpp"
#include "skip.hpp"

namespace llmc_test {

inline void check_cuda(cudaError_t code) {
  if (code != cudaSuccess) {
    throw std::runtime_error(std::string("test: ") + cudaGetErrorString(code));
  }
}

inline bool has_gpu() {
  int count = 0;
  const bool found = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
  cudaGetLastError();
  return found;
}

/// The first line of every test case that needs a GPU.
#define LLMC_REQUIRE_GPU() \
  if (!::llmc_test::has_gpu()) LLMC_SKIP("no GPU")

/// Whether that much memory of the GPU is free, with some to spare.
inline bool has_gpu_bytes(std::size_t bytes) {
  constexpr std::size_t to_spare = 256 << 20;
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total));
  return free >= bytes + to_spare;
}

/// The second line of a test case that needs much memory there.
#define LLMC_REQUIRE_GPU_BYTES(bytes) \
  if (!::llmc_test::has_gpu_bytes(bytes)) LLMC_SKIP("not enough GPU memory")

/// A stream that does not synchronise with the default one.
class stream {
 public:
  stream() { check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~stream() { cudaStreamDestroy(stream_); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void synchronize() const { check_cuda(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// An array on the GPU between two guard bands. It begins `misalignment` elements past a 256-byte
/// boundary and holds bytes 0xff at first, which is NaN as a float, so an element that was never
/// written fails every comparison.
template <class T>
class buffer {
 public:
  explicit buffer(std::int64_t count, int misalignment = 0)
      : count_(static_cast<std::size_t>(count)),
        before_(guard_bytes + static_cast<std::size_t>(misalignment) * sizeof(T)) {
    check_cuda(cudaMalloc(&base_, total_bytes()));
    check_cuda(cudaMemset(base_, 0xff, total_bytes()));
  }
  explicit buffer(const std::vector<T>& values, int misalignment = 0)
      : buffer(static_cast<std::int64_t>(values.size()), misalignment) {
    set(values);
  }
  ~buffer() { cudaFree(base_); }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;

  operator T*() const { return get(); }
  T* get() const { return reinterpret_cast<T*>(base_ + before_); }
  std::size_t size() const { return count_; }

  void set(const std::vector<T>& values) {
    if (values.size() != count_) throw std::runtime_error("test: wrong size in buffer::set");
    check_cuda(cudaMemcpy(get(), values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  void fill_nan() { check_cuda(cudaMemset(get(), 0xff, count_ * sizeof(T))); }

  std::vector<T> values() const {
    std::vector<T> result(count_);
    check_cuda(cudaMemcpy(result.data(), get(), count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return result;
  }

  /// Whether nothing was written outside the array.
  bool guards_intact() const {
    std::vector<unsigned char> bytes(total_bytes());
    check_cuda(cudaMemcpy(bytes.data(), base_, bytes.size(), cudaMemcpyDeviceToHost));
    std::memset(bytes.data() + before_, 0xff, count_ * sizeof(T));
    for (const unsigned char byte : bytes) {
      if (byte != 0xff) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t guard_bytes = 1024;
  std::size_t total_bytes() const { return before_ + count_ * sizeof(T) + guard_bytes; }

  std::size_t count_;
  std::size_t before_;
  unsigned char* base_ = nullptr;
};

/// What a gradient that is added to holds before the launch.
inline constexpr float preset = 0.5f;

/// An output under test: a buffer and what it held before the launch, to which it is set back
/// before every run: NaN to be overwritten, or numbers to be added to.
class output {
 public:
  /// An output that is overwritten.
  explicit output(std::int64_t count, int misalignment = 0) : memory_(count, misalignment) {}
  /// An output that is also an input.
  explicit output(const std::vector<float>& before, int misalignment = 0)
      : memory_(before, misalignment), before_(before) {}
  /// A gradient: NaN to be overwritten, `preset` to be added to.
  output(std::int64_t count, llmc::accumulation mode, int misalignment = 0)
      : memory_(count, misalignment),
        before_(mode == llmc::accumulation::add ? static_cast<std::size_t>(count) : 0, preset) {}

  operator float*() const { return memory_.get(); }
  void reset() {
    if (before_.empty()) {
      memory_.fill_nan();
    } else {
      memory_.set(before_);
    }
  }
  std::vector<float> values() const { return memory_.values(); }
  bool guards_intact() const { return memory_.guards_intact(); }

 private:
  buffer<float> memory_;
  std::vector<float> before_;
};

/// The gradient that a launcher must leave: the reference's, plus what was there where it adds.
inline std::vector<double> expected_gradient(std::vector<double> gradient,
                                             llmc::accumulation mode) {
  for (double& g : gradient) g += mode == llmc::accumulation::add ? preset : 0.0f;
  return gradient;
}

/// The bytes of several outputs, for comparing bit by bit.
inline std::vector<std::vector<float>> snapshot(const std::vector<output*>& outputs) {
  std::vector<std::vector<float>> result;
  for (const output* o : outputs) result.push_back(o->values());
  return result;
}
inline bool same_bits(const std::vector<std::vector<float>>& a,
                      const std::vector<std::vector<float>>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size() ||
        std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) {
      return false;
    }
  }
  return a.size() == b.size();
}

/// Runs `launch(stream)` directly, again, and from a captured graph, each time from the outputs'
/// initial contents; checks that the three agree bit for bit and that no guard band was touched.
/// The outputs then hold the result.
template <class Launch>
void run(const std::vector<output*>& outputs, Launch launch) {
  const stream s;
  const auto from_start = [&](auto&& execute) {
    for (output* o : outputs) o->reset();
    check_cuda(cudaDeviceSynchronize());
    execute();
    s.synchronize();
    return snapshot(outputs);
  };
  const auto direct = from_start([&] { launch(s); });
  const auto again = from_start([&] { launch(s); });
  {
    INFO("the same launch twice gave different bits");
    CHECK(same_bits(direct, again));
  }

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check_cuda(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  launch(s);
  check_cuda(cudaStreamEndCapture(s, &graph));
  check_cuda(cudaGraphInstantiate(&executable, graph, 0));
  const auto replayed = from_start([&] { check_cuda(cudaGraphLaunch(executable, s)); });
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  {
    INFO("the captured graph gave different bits");
    CHECK(same_bits(direct, replayed));
  }
  for (const output* o : outputs) {
    INFO("a guard band was overwritten");
    CHECK(o->guards_intact());
  }
}

}  // namespace llmc_test
