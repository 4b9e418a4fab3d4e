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

class cuda_backend final : public backend<float>, public product_tuner {
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
    zero(memory, bytes);
    return owner;
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    transfers_.upload(to, from, bytes, stream_);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    check_cuda("copying to the host",
               cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_));
    check_cuda("a step", cudaStreamSynchronize(stream_));
  }
  std::unique_ptr<pending_download> start_download(const void* from, std::size_t bytes) override {
    return transfers_.start_download(from, bytes, stream_);
  }
  void zero(void* at, std::size_t bytes) override {
    check_cuda("zeroing memory", cudaMemsetAsync(at, 0, bytes, stream_));
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

  void encoder_forward(float* out, std::uint64_t* out_of_range, const std::int32_t* tokens,
                       const float* wte, const float* wpe, llmc::encoder_shape shape) override {
    llmc::encoder_forward(out, out_of_range, tokens, wte, wpe, shape, stream_);
  }
  void encoder_backward(float* dwte, float* dwpe, const std::int32_t* tokens, const float* dout,
                        llmc::encoder_shape shape, accumulation dwte_mode,
                        accumulation dwpe_mode) override {
    llmc::encoder_backward(dwte, dwpe, workspace_, tokens, dout, shape, dwte_mode, dwpe_mode,
                           stream_);
  }

  void layernorm_forward(float* out, float* mean, float* rstd, const float* inp,
                         const float* weight, const float* bias, llmc::row_shape shape,
                         float epsilon) override {
    llmc::layernorm_forward(out, mean, rstd, inp, weight, bias, shape, epsilon, stream_);
  }
  void residual_layernorm_forward(float* residual, float* out, float* mean, float* rstd,
                                  const float* inp1, const float* inp2, const float* weight,
                                  const float* bias, llmc::row_shape shape,
                                  float epsilon) override {
    llmc::residual_layernorm_forward(residual, out, mean, rstd, inp1, inp2, weight, bias, shape,
                                     epsilon, stream_);
  }
  void residual_layernorm_backward(float* dinp, float* dinp_bias, float* dweight, float* dbias,
                                   const float* dout, const float* dresidual, const float* residual,
                                   const float* weight, const float* mean, const float* rstd,
                                   llmc::row_shape shape, accumulation mode) override {
    llmc::residual_layernorm_backward(dinp, dinp_bias, dweight, dbias, workspace_, dout, dresidual,
                                      residual, weight, mean, rstd, shape, mode, stream_);
  }

  void matmul_forward(float* out, const float* inp, const float* weight, const float* bias,
                      llmc::matmul_shape shape) override {
    llmc::matmul_forward(out, inp, weight, bias, shape, arithmetic_, context_, stream_);
  }
  void matmul_backward(float* dinp, float* dweight, const float* dout, const float* inp,
                       const float* weight, llmc::matmul_shape shape, accumulation mode) override {
    llmc::matmul_backward(dinp, dweight, nullptr, {}, dout, inp, weight, shape, arithmetic_, mode,
                          context_, stream_);
  }

  void matmul_gelu_forward(float* out, float* before_gelu, const float* inp, const float* weight,
                           const float* bias, llmc::matmul_shape shape) override {
    llmc::matmul_gelu_forward(out, before_gelu, inp, weight, bias, shape, arithmetic_, context_,
                              stream_);
  }
  void gelu_forward(float* out, const float* inp, std::int64_t count) override {
    llmc::gelu_forward(out, inp, count, stream_);
  }
  void gelu_matmul_backward(float* dgelu_inp, float* dgelu_bias, float* dweight, const float* dout,
                            const float* gelu_inp, const float* inp, const float* weight,
                            llmc::matmul_shape shape, accumulation mode) override {
    llmc::gelu_matmul_backward(dgelu_inp, dgelu_bias, dweight, nullptr, workspace_, dout, gelu_inp,
                               inp, weight, shape, arithmetic_, mode, context_, stream_);
  }

  void attention_forward(float* out, float* lse, const float* qkv,
                         llmc::attention_shape shape) override {
    llmc::attention_forward(out, lse, workspace_, qkv, shape, in_attention(arithmetic_), context_,
                            stream_);
  }
  void attention_backward(float* dqkv, float* dqkv_bias, const float* dout, const float* qkv,
                          const float* out, const float* lse, llmc::attention_shape shape,
                          accumulation mode) override {
    llmc::attention_backward(dqkv, dqkv_bias, workspace_, dout, qkv, out, lse, shape,
                             in_attention(arithmetic_), mode, context_, stream_);
  }

  void crossentropy_forward(float* losses, std::uint64_t* out_of_range, const float* logits,
                            const std::int32_t* targets, llmc::classifier_shape shape) override {
    llmc::crossentropy_forward(losses, out_of_range, logits, targets, shape, stream_);
  }
  void classifier_forward_backward(float* logits, float* losses, std::uint64_t* out_of_range,
                                   const std::int32_t* targets, llmc::classifier_shape shape,
                                   float dloss) override {
    llmc::classifier_forward_backward(logits, losses, out_of_range, targets, shape, {dloss},
                                      stream_);
  }

  void loss_sum(double* sum, const float* losses, std::int64_t count, accumulation mode) override {
    llmc::loss_sum(sum, losses, count, mode, stream_);
  }
  void skip_update_unless_sound(llmc::clip_state* clip, const double* loss,
                                const std::uint64_t* out_of_range) override {
    llmc::skip_update_unless_sound(clip, loss, out_of_range, stream_);
  }
  void global_norm(llmc::clip_state* result, const float* grads, std::int64_t count,
                   float max_norm) override {
    llmc::global_norm(result, workspace_, grads, count, max_norm, stream_);
  }
  void adamw_update_segments(float* params, float* m, float* v, const float* grads,
                             const llmc::adamw_segment* segments, std::int64_t segment_count,
                             llmc::adamw_parameters constants, const float* learning_rate,
                             const std::int64_t* step, const llmc::clip_state* clip) override {
    llmc::adamw_update_segments(params, m, v, grads, segments, segment_count, constants,
                                learning_rate, step, clip, stream_);
  }

 private:
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
