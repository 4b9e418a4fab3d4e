/// @file
/// A recording that replays calls as a CUDA graph, so that a step costs the host one launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

#include "gpt2/machine/backend.hpp"

namespace gpt2_trainer {

/// The first time, the calls are made as they are, and with them whatever is made only once. The
/// second time they are recorded and launched; from then on the graph is launched. The kernels that
/// the plans chose are part of a graph, so all begins anew when `generation` changes.
class cuda_graph final : public recording {
 public:
  /// Both must outlive the graph. While `generation` is `never`, calls are made as they are.
  cuda_graph(cudaStream_t stream, const std::int64_t& generation)
      : stream_(stream), generation_(generation) {}
  ~cuda_graph() override { forget(); }
  cuda_graph(const cuda_graph&) = delete;
  cuda_graph& operator=(const cuda_graph&) = delete;

  static constexpr std::int64_t never = -1;

  void run(const std::function<void()>& calls) override;

 private:
  void capture(const std::function<void()>& calls);
  void forget() noexcept;

  cudaStream_t stream_;
  const std::int64_t& generation_;
  std::int64_t made_in_ = never;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace gpt2_trainer
