#include "gpt2/machine/reference_backend.hpp"

#include <chrono>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include <llmc/reference/adamw.hpp>
#include <llmc/reference/attention.hpp>
#include <llmc/reference/classifier.hpp>
#include <llmc/reference/crossentropy.hpp>
#include <llmc/reference/encoder.hpp>
#include <llmc/reference/gelu.hpp>
#include <llmc/reference/global_norm.hpp>
#include <llmc/reference/layernorm.hpp>
#include <llmc/reference/loss_sum.hpp>
#include <llmc/reference/matmul.hpp>
#include <llmc/reference/residual_layernorm.hpp>

namespace gpt2_trainer {
namespace {

namespace reference = llmc::reference;
using llmc::accumulation;

/// Calls are over when they return, so there is nothing to record and nothing to wait for.
class direct_calls final : public recording {
 public:
  void run(const std::function<void()>& calls) override { calls(); }
};

class copied_bytes final : public pending_download {
 public:
  copied_bytes(const void* from, std::size_t bytes)
      : bytes_(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes) {}
  void finish(void* to) override { std::memcpy(to, bytes_.data(), bytes_.size()); }

 private:
  std::vector<std::byte> bytes_;
};

class host_timer final : public call_timer {
 public:
  void begin() override { begin_ = clock::now(); }
  void end() override {
    seconds_.push_back(std::chrono::duration<double>(clock::now() - begin_).count());
  }
  std::vector<double> finish() override { return std::exchange(seconds_, {}); }

 private:
  using clock = std::chrono::steady_clock;

  clock::time_point begin_;
  std::vector<double> seconds_;
};

template <class Real>
class reference_backend final : public backend<Real> {
 public:
  std::string description() const override {
#if defined(_OPENMP)
    const int threads = omp_get_max_threads();
#else
    const int threads = 1;
#endif
    return "CPU reference, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  }

  std::unique_ptr<call_timer> make_timer() override {
    return std::make_unique<host_timer>();
  }

  std::shared_ptr<void> allocate(std::size_t bytes) override {
    constexpr std::align_val_t alignment{256};
    const std::shared_ptr<void> memory(::operator new(bytes, alignment),
                                       [](void* p) { ::operator delete(p, alignment); });
    std::memset(memory.get(), 0, bytes);
    return memory;
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  std::unique_ptr<pending_download> start_download(const void* from, std::size_t bytes) override {
    return std::make_unique<copied_bytes>(from, bytes);
  }
  void zero(void* at, std::size_t bytes) override {
    std::memset(at, 0, bytes);
  }
  std::unique_ptr<recording> record() override {
    return std::make_unique<direct_calls>();
  }

  std::size_t workspace_bytes(const step_shapes&) const override {
    return 0;
  }
  void use_workspace(llmc::workspace) override {}

  void encoder_forward(Real* out, std::uint64_t* out_of_range, const std::int32_t* tokens,
                       const Real* wte, const Real* wpe, llmc::encoder_shape shape) override {
    reference::encoder_forward(out, out_of_range, tokens, wte, wpe, shape);
  }
  void encoder_backward(Real* dwte, Real* dwpe, const std::int32_t* tokens, const Real* dout,
                        llmc::encoder_shape shape, accumulation dwte_mode,
                        accumulation dwpe_mode) override {
    reference::encoder_backward(dwte, dwpe, tokens, dout, shape, dwte_mode, dwpe_mode);
  }

  void layernorm_forward(Real* out, Real* mean, Real* rstd, const Real* inp, const Real* weight,
                         const Real* bias, llmc::row_shape shape, Real epsilon) override {
    reference::layernorm_forward(out, mean, rstd, inp, weight, bias, shape, epsilon);
  }
  void residual_layernorm_forward(Real* residual, Real* out, Real* mean, Real* rstd,
                                  const Real* inp1, const Real* inp2, const Real* weight,
                                  const Real* bias, llmc::row_shape shape, Real epsilon) override {
    reference::residual_layernorm_forward(residual, out, mean, rstd, inp1, inp2, weight, bias,
                                          shape, epsilon);
  }
  void residual_layernorm_backward(Real* dinp, Real* dinp_bias, Real* dweight, Real* dbias,
                                   const Real* dout, const Real* dresidual, const Real* residual,
                                   const Real* weight, const Real* mean, const Real* rstd,
                                   llmc::row_shape shape, accumulation mode) override {
    reference::residual_layernorm_backward(dinp, dinp_bias, dweight, dbias, dout, dresidual,
                                           residual, weight, mean, rstd, shape, mode);
  }

  void matmul_forward(Real* out, const Real* inp, const Real* weight, const Real* bias,
                      llmc::matmul_shape shape) override {
    reference::matmul_forward(out, inp, weight, bias, shape);
  }
  void matmul_backward(Real* dinp, Real* dweight, const Real* dout, const Real* inp,
                       const Real* weight, llmc::matmul_shape shape, accumulation mode) override {
    reference::matmul_backward<Real>(dinp, dweight, nullptr, dout, inp, weight, shape, mode);
  }

  void matmul_gelu_forward(Real* out, Real* before_gelu, const Real* inp, const Real* weight,
                           const Real* bias, llmc::matmul_shape shape) override {
    reference::matmul_forward(before_gelu, inp, weight, bias, shape);
    reference::gelu_forward(out, before_gelu, shape.rows * shape.out_channels);
  }
  void gelu_forward(Real* out, const Real* inp, std::int64_t count) override {
    reference::gelu_forward(out, inp, count);
  }
  void gelu_matmul_backward(Real* dgelu_inp, Real* dgelu_bias, Real* dweight, const Real* dout,
                            const Real* gelu_inp, const Real* inp, const Real* weight,
                            llmc::matmul_shape shape, accumulation mode) override {
    reference::matmul_backward<Real>(dgelu_inp, dweight, nullptr, dout, inp, weight, shape, mode);
    if (dgelu_inp == nullptr) return;
    reference::gelu_backward(dgelu_inp, dgelu_inp, gelu_inp, shape.rows * shape.channels);
    reference::matmul_bias_backward(dgelu_bias, dgelu_inp, {shape.rows, shape.channels}, mode);
  }

  void attention_forward(Real* out, Real* lse, const Real* qkv,
                         llmc::attention_shape shape) override {
    reference::attention_forward(out, lse, qkv, shape);
  }
  void attention_backward(Real* dqkv, Real* dqkv_bias, const Real* dout, const Real* qkv,
                          const Real* out, const Real* lse, llmc::attention_shape shape,
                          accumulation mode) override {
    reference::attention_backward(dqkv, dqkv_bias, dout, qkv, out, lse, shape, mode);
  }

  void crossentropy_forward(Real* losses, std::uint64_t* out_of_range, const Real* logits,
                            const std::int32_t* targets, llmc::classifier_shape shape) override {
    reference::crossentropy_forward(losses, out_of_range, logits, targets, shape);
  }
  void classifier_forward_backward(Real* logits, Real* losses, std::uint64_t* out_of_range,
                                   const std::int32_t* targets, llmc::classifier_shape shape,
                                   Real dloss) override {
    reference::classifier_forward_backward(logits, losses, out_of_range, targets, shape, dloss);
  }

  void loss_sum(double* sum, const Real* losses, std::int64_t count, accumulation mode) override {
    reference::loss_sum(sum, losses, count, mode);
  }
  void skip_update_unless_sound(llmc::clip_state* clip, const double* loss,
                                const std::uint64_t* out_of_range) override {
    reference::skip_update_unless_sound(clip, loss, out_of_range);
  }
  void global_norm(llmc::clip_state* result, const Real* grads, std::int64_t count,
                   float max_norm) override {
    reference::global_norm(result, grads, count, max_norm);
  }
  void adamw_update_segments(Real* params, Real* m, Real* v, const Real* grads,
                             const llmc::adamw_segment* segments, std::int64_t segment_count,
                             llmc::adamw_parameters constants, const float* learning_rate,
                             const std::int64_t* step, const llmc::clip_state* clip) override {
    reference::adamw_update_segments(params, m, v, grads, segments, segment_count, constants,
                                     learning_rate, step, clip);
  }
};

}  // namespace

template <class Real>
std::unique_ptr<backend<Real>> make_reference_backend() {
  return std::make_unique<reference_backend<Real>>();
}

template std::unique_ptr<backend<float>> make_reference_backend();
template std::unique_ptr<backend<double>> make_reference_backend();

}  // namespace gpt2_trainer
