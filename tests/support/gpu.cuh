/// @file
/// What every test on the GPU uses: guarded buffers, a stream of its own, and a runner that checks
/// what a launcher's contract promises: the same bits again, and the same bits from a graph.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <llmc/types.hpp>

#include "catch.hpp"
#include "registry/device_memory.hpp"
#include "skip.hpp"

namespace llmc_test {

/// The first line of every test case that needs a GPU.
#define LLMC_REQUIRE_GPU() \
  if (!::llmc_test::has_gpu()) LLMC_SKIP("no GPU")

/// The second line of a test case that needs much memory there.
#define LLMC_REQUIRE_GPU_BYTES(bytes) \
  if (!::llmc_test::has_gpu_bytes(bytes)) LLMC_SKIP("not enough GPU memory")

/// What a gradient that is added to holds before the launch.
inline constexpr float preset = 0.5f;

/// An output under test: a buffer and its contents before the launch, NaN to be overwritten or
/// numbers to be added to. It gets these contents back before every run.
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
