#include "gpt2/machine/profiled_backend.hpp"

#include <utility>

namespace gpt2_trainer {
namespace {

using llmc::accumulation;
using llmc::matmul_shape;

std::string with_extents(const std::string& name, matmul_shape shape) {
  return name + " " + std::to_string(shape.channels) + " -> " + std::to_string(shape.out_channels);
}

/// Replays nothing while calls are timed.
class timed_recording final : public recording {
 public:
  timed_recording(std::unique_ptr<recording> inner, const bool& timing)
      : inner_(std::move(inner)), timing_(timing) {}

  void run(const std::function<void()>& calls) override {
    if (timing_) return calls();
    inner_->run(calls);
  }

 private:
  std::unique_ptr<recording> inner_;
  const bool& timing_;
};

class timed_calls final : public profiled_backend {
 public:
  explicit timed_calls(std::unique_ptr<backend<float>> inner)
      : inner_(std::move(inner)), timer_(inner_->make_timer()) {}

  void start() override { timing_ = true; }
  void end_step() override {
    steps_.push_back(std::move(step_));
    step_.clear();
  }
  std::vector<timed_step> finish() override {
    timing_ = false;
    const std::vector<double> seconds = timer_->finish();
    auto next = seconds.begin();
    for (timed_step& step : steps_) {
      for (timed_call& call : step) call.seconds = *next++;
    }
    step_.clear();
    return std::exchange(steps_, {});
  }

  std::string description() const override { return inner_->description(); }
  peak_rates peak() const override { return inner_->peak(); }
  measured_rates measure_rates() override { return inner_->measure_rates(); }
  std::unique_ptr<call_timer> make_timer() override { return inner_->make_timer(); }
  product_tuner* products() override { return inner_->products(); }

  std::size_t own_bytes() const override { return inner_->own_bytes(); }
  std::shared_ptr<void> allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  void upload(void* to, const void* from, std::size_t bytes) override {
    timed("upload", {}, [&] { inner_->upload(to, from, bytes); });
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    timed("download", {}, [&] { inner_->download(to, from, bytes); });
  }
  std::unique_ptr<pending_download> start_download(const void* from, std::size_t bytes) override {
    std::unique_ptr<pending_download> pending;
    timed("download", {}, [&] { pending = inner_->start_download(from, bytes); });
    return pending;
  }
  void zero(void* at, std::size_t bytes) override {
    timed("zero", costs::zero(bytes), [&] { inner_->zero(at, bytes); });
  }

  std::unique_ptr<recording> record() override {
    return std::make_unique<timed_recording>(inner_->record(), timing_);
  }

  std::size_t workspace_bytes(const step_shapes& shapes) const override {
    return inner_->workspace_bytes(shapes);
  }
  void use_workspace(llmc::workspace scratch) override { inner_->use_workspace(scratch); }

  void encoder_forward(float* out, std::uint64_t* out_of_range, const std::int32_t* tokens,
                       const float* wte, const float* wpe, llmc::encoder_shape shape) override {
    timed("encoder_forward", costs::encoder_forward(shape, costs::most_different_tokens(shape)),
          [&] { inner_->encoder_forward(out, out_of_range, tokens, wte, wpe, shape); });
  }
  void encoder_backward(float* dwte, float* dwpe, const std::int32_t* tokens, const float* dout,
                        llmc::encoder_shape shape, accumulation dwte_mode,
                        accumulation dwpe_mode) override {
    timed("encoder_backward",
          costs::encoder_backward(shape, costs::most_different_tokens(shape), dwte_mode, dwpe_mode),
          [&] { inner_->encoder_backward(dwte, dwpe, tokens, dout, shape, dwte_mode, dwpe_mode); });
  }

  void layernorm_forward(float* out, float* mean, float* rstd, const float* inp,
                         const float* weight, const float* bias, llmc::row_shape shape,
                         float epsilon) override {
    timed("layernorm_forward", costs::layernorm_forward(shape),
          [&] { inner_->layernorm_forward(out, mean, rstd, inp, weight, bias, shape, epsilon); });
  }
  void residual_layernorm_forward(float* residual, float* out, float* mean, float* rstd,
                                  const float* inp1, const float* inp2, const float* weight,
                                  const float* bias, llmc::row_shape shape,
                                  float epsilon) override {
    timed("residual_layernorm_forward", costs::residual_layernorm_forward(shape), [&] {
      inner_->residual_layernorm_forward(residual, out, mean, rstd, inp1, inp2, weight, bias, shape,
                                         epsilon);
    });
  }
  void residual_layernorm_backward(float* dinp, float* dinp_bias, float* dweight, float* dbias,
                                   const float* dout, const float* dresidual, const float* residual,
                                   const float* weight, const float* mean, const float* rstd,
                                   llmc::row_shape shape, accumulation mode) override {
    timed(
        "residual_layernorm_backward",
        costs::residual_layernorm_backward(shape, dresidual != nullptr, dinp_bias != nullptr, mode),
        [&] {
          inner_->residual_layernorm_backward(dinp, dinp_bias, dweight, dbias, dout, dresidual,
                                              residual, weight, mean, rstd, shape, mode);
        });
  }

  void matmul_forward(float* out, const float* inp, const float* weight, const float* bias,
                      matmul_shape shape) override {
    timed(with_extents("matmul_forward", shape), costs::matmul_forward(shape, bias != nullptr),
          [&] { inner_->matmul_forward(out, inp, weight, bias, shape); });
  }
  void matmul_backward(float* dinp, float* dweight, const float* dout, const float* inp,
                       const float* weight, matmul_shape shape, accumulation mode) override {
    const auto backward = [&](float* dinp_part, float* dweight_part) {
      inner_->matmul_backward(dinp_part, dweight_part, dout, inp, weight, shape, mode);
    };
    if (!timing_) return backward(dinp, dweight);
    const std::string name = with_extents("matmul_backward", shape);
    timed(name + " dinp", costs::matmul_dinp(shape), [&] { backward(dinp, nullptr); });
    timed(name + " dweight", costs::matmul_dweight(shape, mode),
          [&] { backward(nullptr, dweight); });
  }

  void matmul_gelu_forward(float* out, float* before_gelu, const float* inp, const float* weight,
                           const float* bias, matmul_shape shape) override {
    timed(with_extents("matmul_gelu_forward", shape),
          costs::matmul_gelu_forward(shape, bias != nullptr),
          [&] { inner_->matmul_gelu_forward(out, before_gelu, inp, weight, bias, shape); });
  }
  void gelu_forward(float* out, const float* inp, std::int64_t count) override {
    timed("gelu_forward", costs::gelu_forward(count),
          [&] { inner_->gelu_forward(out, inp, count); });
  }
  void gelu_matmul_backward(float* dgelu_inp, float* dgelu_bias, float* dweight, const float* dout,
                            const float* gelu_inp, const float* inp, const float* weight,
                            matmul_shape shape, accumulation mode) override {
    // dgelu_bias is a sum of what the kernel of dgelu_inp computes, so these stay together.
    const auto backward = [&](float* dgelu_inp_part, float* dgelu_bias_part, float* dweight_part) {
      inner_->gelu_matmul_backward(dgelu_inp_part, dgelu_bias_part, dweight_part, dout, gelu_inp,
                                   inp, weight, shape, mode);
    };
    if (!timing_) return backward(dgelu_inp, dgelu_bias, dweight);
    const std::string name = with_extents("gelu_matmul_backward", shape);
    timed(name + " dgelu_inp", costs::matmul_dgelu_inp(shape, dgelu_bias != nullptr, mode),
          [&] { backward(dgelu_inp, dgelu_bias, nullptr); });
    timed(name + " dweight", costs::matmul_dweight(shape, mode),
          [&] { backward(nullptr, nullptr, dweight); });
  }

  void attention_forward(float* out, float* lse, const float* qkv,
                         llmc::attention_shape shape) override {
    timed("attention_forward", costs::attention_forward(shape),
          [&] { inner_->attention_forward(out, lse, qkv, shape); });
  }
  void attention_backward(float* dqkv, float* dqkv_bias, const float* dout, const float* qkv,
                          const float* out, const float* lse, llmc::attention_shape shape,
                          accumulation mode) override {
    timed("attention_backward", costs::attention_backward(shape, dqkv_bias != nullptr, mode),
          [&] { inner_->attention_backward(dqkv, dqkv_bias, dout, qkv, out, lse, shape, mode); });
  }

  void crossentropy_forward(float* losses, std::uint64_t* out_of_range, const float* logits,
                            const std::int32_t* targets, llmc::classifier_shape shape) override {
    timed("crossentropy_forward", costs::crossentropy_forward(shape),
          [&] { inner_->crossentropy_forward(losses, out_of_range, logits, targets, shape); });
  }
  void classifier_forward_backward(float* logits, float* losses, std::uint64_t* out_of_range,
                                   const std::int32_t* targets, llmc::classifier_shape shape,
                                   float dloss) override {
    timed("classifier_forward_backward", costs::classifier_forward_backward(shape), [&] {
      inner_->classifier_forward_backward(logits, losses, out_of_range, targets, shape, dloss);
    });
  }

  void loss_sum(double* sum, const float* losses, std::int64_t count, accumulation mode) override {
    timed("loss_sum", costs::loss_sum(count), [&] { inner_->loss_sum(sum, losses, count, mode); });
  }
  void skip_update_unless_sound(llmc::clip_state* clip, const double* loss,
                                const std::uint64_t* out_of_range) override {
    timed("skip_update_unless_sound", {},
          [&] { inner_->skip_update_unless_sound(clip, loss, out_of_range); });
  }
  void global_norm(llmc::clip_state* result, const float* grads, std::int64_t count,
                   float max_norm) override {
    timed("global_norm", costs::global_norm(count),
          [&] { inner_->global_norm(result, grads, count, max_norm); });
  }
  void adamw_update_segments(float* params, float* m, float* v, const float* grads,
                             const llmc::adamw_segment* segments, std::int64_t segment_count,
                             llmc::adamw_parameters constants, const float* learning_rate,
                             const std::int64_t* step, const llmc::clip_state* clip) override {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < segment_count; ++i) count += segments[i].count;
    timed("adamw_update_segments", costs::adamw_update(count), [&] {
      inner_->adamw_update_segments(params, m, v, grads, segments, segment_count, constants,
                                    learning_rate, step, clip);
    });
  }

 private:
  template <class Call>
  void timed(std::string name, call_cost cost, Call call) {
    if (!timing_) return call();
    timer_->begin();
    call();
    timer_->end();
    step_.push_back({std::move(name), cost, 0});
  }

  std::unique_ptr<backend<float>> inner_;
  std::unique_ptr<call_timer> timer_;
  bool timing_ = false;
  timed_step step_;  ///< calls whose step is not over
  std::vector<timed_step> steps_;
};

}  // namespace

std::unique_ptr<profiled_backend> make_profiled_backend(std::unique_ptr<backend<float>> inner) {
  return std::make_unique<timed_calls>(std::move(inner));
}

}  // namespace gpt2_trainer
