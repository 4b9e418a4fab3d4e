#include "gpt2/machine/cuda/cuda_graph.hpp"

#include "gpt2/machine/cuda/cuda_check.hpp"

namespace gpt2_trainer {

void cuda_graph::run(const std::function<void()>& calls) {
  if (generation_ == never || made_in_ != generation_) {
    forget();
    calls();
    made_in_ = generation_;
    return;
  }
  if (graph_ == nullptr) capture(calls);
  check_cuda("launching a step", cudaGraphLaunch(graph_, stream_));
}

void cuda_graph::capture(const std::function<void()>& calls) {
  check_cuda("beginning to record a step",
             cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t recorded = nullptr;
  try {
    calls();
  } catch (...) {
    cudaStreamEndCapture(stream_, &recorded);
    if (recorded != nullptr) cudaGraphDestroy(recorded);
    throw;
  }
  check_cuda("recording a step", cudaStreamEndCapture(stream_, &recorded));
  const cudaError_t code = cudaGraphInstantiate(&graph_, recorded, 0);
  cudaGraphDestroy(recorded);
  check_cuda("making a graph of a step", code);
}

void cuda_graph::forget() noexcept {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  graph_ = nullptr;
  made_in_ = never;
}

}  // namespace gpt2_trainer
