#include "gpt2/machine/cuda/cuda_backend.hpp"

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <stdexcept>

#include <llmc/adamw.cuh>
#include <llmc/attention.cuh>
#include <llmc/classifier.cuh>
#include <llmc/crossentropy.cuh>
#include <llmc/encoder.cuh>
#include <llmc/gelu.cuh>
#include <llmc/global_norm.cuh>
#include <llmc/layernorm.cuh>
#include <llmc/loss_sum.cuh>
#include <llmc/matmul.cuh>
#include <llmc/matmul_context.hpp>
#include <llmc/matmul_gelu.cuh>
#include <llmc/residual_layernorm.cuh>

#include "gpt2/machine/cuda/cuda_check.hpp"
#include "gpt2/machine/cuda/cuda_graph.hpp"
#include "gpt2/machine/cuda/cuda_rates.hpp"
#include "gpt2/machine/cuda/cuda_stream.hpp"
#include "gpt2/machine/cuda/cuda_timer.hpp"
#include "gpt2/machine/cuda/cuda_transfers.hpp"

namespace gpt2_trainer {
namespace {

using llmc::accumulation;
using llmc::precision;

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check_cuda("cudaDeviceGetAttribute", cudaDeviceGetAttribute(&value, which, device));
  return value;
}

/// Multiplications with addition that one multiprocessor does in one clock, from NVIDIA's data
/// sheets.
struct multiprocessor_rates {
  double fp32;
  double tf32;  // 0: no tensor cores for it
};

multiprocessor_rates rates_of(int major, int minor) {
  if (major == 7) return {64, 0};
  if (major == 8 && minor == 0) return {64, 512};
  if (major == 9) return {128, 1024};
  if (major == 10) return {128, 2048};
  return {128, 128};
}

peak_rates peak_of(int device, precision arithmetic) {
  const multiprocessor_rates rates = rates_of(attribute(cudaDevAttrComputeCapabilityMajor, device),
                                              attribute(cudaDevAttrComputeCapabilityMinor, device));
  const llmc::precision_facts& facts = llmc::facts_of(arithmetic);
  const double on_tensor_cores = facts.on_tensor_cores() ? rates.tf32 / facts.products : 0;
  const double products_per_clock = std::max(rates.fp32, on_tensor_cores);
  constexpr double hertz_per_kilohertz = 1000;
  constexpr double transfers_per_clock = 2;
  return {2 * products_per_clock * attribute(cudaDevAttrMultiProcessorCount, device) *
              attribute(cudaDevAttrClockRate, device) * hertz_per_kilohertz,
          transfers_per_clock * attribute(cudaDevAttrMemoryClockRate, device) *
              hertz_per_kilohertz * attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8};
}

/// Attention has no use for `ieee`: tf32x3 is at least as exact there and about twice as fast.
precision in_attention(precision arithmetic) {
  return arithmetic == precision::ieee ? precision::tf32x3 : arithmetic;
}

/// Puts a value in the place of another one until it goes out of scope.
class instead {
 public:
  instead(std::int64_t& place, std::int64_t now, std::int64_t later)
      : place_(place), later_(later) {
    place_ = now;
  }
  ~instead() { place_ = later_; }
  instead(const instead&) = delete;
  instead& operator=(const instead&) = delete;

 private:
  std::int64_t& place_;
  std::int64_t later_;
};

class cuda_backend final : public backend<float>, public layers<float>, public product_tuner {
 public:
  explicit cuda_backend(precision arithmetic) : arithmetic_(arithmetic) {
    check_cuda("cudaGetDevice", cudaGetDevice(&device_));
  }

  std::string description() const override {
    cudaDeviceProp properties;
    check_cuda("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, device_));
    const precision attention = in_attention(arithmetic_);
    return std::string(properties.name) + ", precision " + to_string(arithmetic_) +
           (attention == arithmetic_ ? "" : std::string(", in attention ") + to_string(attention));
  }
  peak_rates peak() const override { return peak_of(device_, arithmetic_); }
  measured_rates measure_rates() override {
    return measure_card(arithmetic_, in_attention(arithmetic_));
  }
  std::unique_ptr<call_timer> make_timer() override {
    return std::make_unique<cuda_timer>(stream_);
  }

  product_tuner* products() override { return this; }
  void tune(const std::function<void()>& step) override {
    try {
      const instead untuned(plans_generation_, cuda_graph::never, plans_generation_ + 1);
      context_.tune(stream_, step);
    } catch (const llmc::cuda_error& error) {
      if (error.code() != cudaErrorMemoryAllocation) throw;
      throw std::runtime_error(std::string(error.what()) +
                               " (a smaller --batch or --plans off needs less memory)");
    }
  }
  std::string plans() const override {
    std::ostringstream text;
    context_.save_plans(text);
    return text.str();
  }
  void load_plans(const std::string& text, const std::string& name) override {
    std::istringstream from(text);
    context_.load_plans(from, name);
    ++plans_generation_;
  }

  std::size_t own_bytes() const override { return llmc::matmul_context::workspace_bytes; }
  std::shared_ptr<void> allocate(std::size_t bytes) override {
    void* memory = nullptr;
    check_cuda("allocating " + std::to_string(bytes >> 20) + " MiB", cudaMalloc(&memory, bytes));
    const std::shared_ptr<void> owner(memory, [](void* p) { cudaFree(p); });
    do_zero(memory, bytes);
    return owner;
  }
  std::unique_ptr<recording> record() override {
    return std::make_unique<cuda_graph>(stream_, plans_generation_);
  }

  std::size_t workspace_bytes(const step_shapes& shapes) const override {
    return std::max({llmc::encoder_backward_workspace_bytes(shapes.encoder),
                     llmc::residual_layernorm_backward_workspace_bytes(shapes.residual),
                     llmc::gelu_matmul_backward_workspace_bytes(shapes.fcproj),
                     llmc::attention_forward_workspace_bytes(shapes.attention),
                     llmc::attention_backward_workspace_bytes(shapes.attention),
                     llmc::global_norm_workspace_bytes(shapes.parameters)});
  }
  void use_workspace(llmc::workspace scratch) override { workspace_ = scratch; }

  void run(const calls::encoder_forward<float>& c) override {
    llmc::encoder_forward(c.out, c.out_of_range, c.tokens, c.wte, c.wpe, c.shape, stream_);
  }
  void run(const calls::encoder_backward<float>& c) override {
    llmc::encoder_backward(c.dwte, c.dwpe, workspace_, c.tokens, c.dout, c.shape, c.dwte_mode,
                           c.dwpe_mode, stream_);
  }

  void run(const calls::layernorm_forward<float>& c) override {
    llmc::layernorm_forward(c.out, c.mean, c.rstd, c.inp, c.weight, c.bias, c.shape, c.epsilon,
                            stream_);
  }
  void run(const calls::residual_layernorm_forward<float>& c) override {
    llmc::residual_layernorm_forward(c.residual, c.out, c.mean, c.rstd, c.inp1, c.inp2, c.weight,
                                     c.bias, c.shape, c.epsilon, stream_);
  }
  void run(const calls::residual_layernorm_backward<float>& c) override {
    llmc::residual_layernorm_backward(c.dinp, c.dinp_bias, c.dweight, c.dbias, workspace_, c.dout,
                                      c.dresidual, c.residual, c.weight, c.mean, c.rstd, c.shape,
                                      c.mode, stream_);
  }

  void run(const calls::matmul_forward<float>& c) override {
    llmc::matmul_forward(c.out, c.inp, c.weight, c.bias, c.shape, arithmetic_, context_, stream_);
  }
  void run(const calls::matmul_backward<float>& c) override {
    llmc::matmul_backward(c.dinp, c.dweight, nullptr, {}, c.dout, c.inp, c.weight, c.shape,
                          arithmetic_, c.mode, context_, stream_);
  }

  void run(const calls::matmul_gelu_forward<float>& c) override {
    llmc::matmul_gelu_forward(c.out, c.before_gelu, c.inp, c.weight, c.bias, c.shape, arithmetic_,
                              context_, stream_);
  }
  void run(const calls::gelu_forward<float>& c) override {
    llmc::gelu_forward(c.out, c.inp, c.count, stream_);
  }
  void run(const calls::gelu_matmul_backward<float>& c) override {
    llmc::gelu_matmul_backward(c.dgelu_inp, c.dgelu_bias, c.dweight, nullptr, workspace_, c.dout,
                               c.gelu_inp, c.inp, c.weight, c.shape, arithmetic_, c.mode, context_,
                               stream_);
  }

  void run(const calls::attention_forward<float>& c) override {
    llmc::attention_forward(c.out, c.lse, workspace_, c.qkv, c.shape, in_attention(arithmetic_),
                            context_, stream_);
  }
  void run(const calls::attention_backward<float>& c) override {
    llmc::attention_backward(c.dqkv, c.dqkv_bias, workspace_, c.dout, c.qkv, c.out, c.lse, c.shape,
                             in_attention(arithmetic_), c.mode, context_, stream_);
  }

  void run(const calls::crossentropy_forward<float>& c) override {
    llmc::crossentropy_forward(c.losses, c.out_of_range, c.logits, c.targets, c.shape, stream_);
  }
  void run(const calls::classifier_forward_backward<float>& c) override {
    llmc::classifier_forward_backward(c.logits, c.losses, c.out_of_range, c.targets, c.shape,
                                      {c.dloss}, stream_);
  }

  void run(const calls::loss_sum<float>& c) override {
    llmc::loss_sum(c.sum, c.losses, c.count, c.mode, stream_);
  }
  void run(const calls::skip_update_unless_sound<float>& c) override {
    llmc::skip_update_unless_sound(c.clip, c.loss, c.out_of_range, stream_);
  }
  void run(const calls::global_norm<float>& c) override {
    llmc::global_norm(c.result, workspace_, c.grads, c.count, c.max_norm, stream_);
  }
  void run(const calls::adamw_update_segments<float>& c) override {
    llmc::adamw_update_segments(c.params, c.m, c.v, c.grads, c.segments, c.segment_count,
                                c.constants, c.learning_rate, c.step, c.clip, stream_);
  }

 private:
  layers<float>& on() override { return *this; }
  void do_upload(void* to, const void* from, std::size_t bytes) override {
    transfers_.upload(to, from, bytes, stream_);
  }
  void do_download(void* to, const void* from, std::size_t bytes) override {
    check_cuda("copying to the host",
               cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
    check_cuda("a step", cudaStreamSynchronize(stream_));
  }
  std::unique_ptr<pending_download> do_start_download(const void* from,
                                                      std::size_t bytes) override {
    return transfers_.start_download(from, bytes, stream_);
  }
  void do_zero(void* at, std::size_t bytes) override {
    check_cuda("zeroing memory", cudaMemsetAsync(at, 0, bytes, stream_));
  }

  precision arithmetic_;
  int device_ = -1;
  cuda_stream stream_;
  llmc::matmul_context context_;
  cuda_transfers transfers_;
  std::int64_t plans_generation_ = 0;  ///< counts the changes of plans
  llmc::workspace workspace_;
};

/// There is code for a device exactly if this kernel can be loaded on it.
__global__ void probe() {}

}  // namespace

std::unique_ptr<backend<float>> make_cuda_backend(precision arithmetic, std::string& reason) {
  int devices = 0;
  cudaError_t code = cudaGetDeviceCount(&devices);
  cudaFuncAttributes attributes;
  if (code == cudaSuccess && devices > 0) code = cudaFuncGetAttributes(&attributes, probe);
  if (code == cudaSuccess && devices > 0) return std::make_unique<cuda_backend>(arithmetic);
  reason = code == cudaSuccess ? "no CUDA device" : cudaGetErrorString(code);
  cudaGetLastError();  // asking was no error of the program's
  return nullptr;
}

}  // namespace gpt2_trainer
