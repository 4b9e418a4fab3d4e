/// @file
/// What the model needs of the machine it runs on: memory and llmc's layers, under the launchers'
/// own names. Calls are queued in order; only `download` and a `pending_download` wait for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <llmc/types.hpp>

namespace gpt2_trainer {

/// The most that the hardware can do; 0 where that is not known.
struct peak_rates {
  double flops_per_second = 0;
  double bytes_per_second = 0;
};

/// What the hardware does reach, in tests of this program; 0 where that is not known.
struct measured_rates {
  double bytes_per_second = 0;            ///< of a copy, read and written
  double product_flops_per_second = 0;    ///< of a large product
  double attention_flops_per_second = 0;  ///< of a large product in attention's arithmetic
};

/// Times stretches of calls where they run.
class call_timer {
 public:
  virtual ~call_timer() = default;

  /// What is called between these two is a stretch, which begins when all before it is over.
  virtual void begin() = 0;
  virtual void end() = 0;
  /// Waits for the stretches so far. Their seconds, in order; the next ones are counted anew.
  virtual std::vector<double> finish() = 0;
};

/// Matrix products that can be timed to find the fastest way to do each.
class product_tuner {
 public:
  virtual ~product_tuner() = default;

  /// Calls `step`; the products that it runs and for which there is no plan yet are timed.
  virtual void tune(const std::function<void()>& step) = 0;
  /// The plans that were timed or loaded, as text.
  virtual std::string plans() const = 0;
  /// `name` is what errors call the text. Throws llmc::invalid_argument, and changes nothing, if
  /// the plans are not for this machine.
  virtual void load_plans(const std::string& text, const std::string& name) = 0;
};

/// Calls of a backend that are the same each time, with the same arguments. After the first times
/// they may be replayed instead of made, so they must do nothing else.
class recording {
 public:
  virtual ~recording() = default;
  virtual void run(const std::function<void()>& calls) = 0;
};

/// A copy to the host that was queued.
class pending_download {
 public:
  virtual ~pending_download() = default;
  /// Waits for it, and copies what arrived.
  virtual void finish(void* to) = 0;
};

/// All the shapes that a step over (B, T) tokens meets.
struct step_shapes {
  llmc::encoder_shape encoder;
  llmc::row_shape residual;
  llmc::matmul_shape qkv;
  llmc::attention_shape attention;
  llmc::matmul_shape attproj;
  llmc::matmul_shape fc;
  llmc::matmul_shape fcproj;
  llmc::matmul_shape head;  ///< of the most rows whose logits exist at once
  std::int64_t parameters;
};

/// See the header of each layer for what its call does; scratch and streams are the backend's own.
template <class Real>
class backend {
 public:
  virtual ~backend() = default;

  /// One line: the device and the arithmetic.
  virtual std::string description() const = 0;
  virtual peak_rates peak() const { return {}; }
  /// Takes a second or two, and memory for as long.
  virtual measured_rates measure_rates() { return {}; }
  virtual std::unique_ptr<call_timer> make_timer() = 0;

  /// Null where there is nothing to tune.
  virtual product_tuner* products() { return nullptr; }

  /// Memory of the device that the backend itself holds.
  virtual std::size_t own_bytes() const { return 0; }
  /// Memory of the device, zeroed, aligned to 256 bytes.
  virtual std::shared_ptr<void> allocate(std::size_t bytes) = 0;
  /// `from` may change as soon as the call is over.
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  /// Waits for all that was queued, then copies to the host.
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  /// For small results that are wanted later; at most a few at a time.
  virtual std::unique_ptr<pending_download> start_download(const void* from, std::size_t bytes) = 0;
  virtual void zero(void* at, std::size_t bytes) = 0;

  virtual std::unique_ptr<recording> record() = 0;

  /// Scratch that the layers need for these shapes, and where it lies for the calls that follow.
  virtual std::size_t workspace_bytes(const step_shapes& shapes) const = 0;
  virtual void use_workspace(llmc::workspace scratch) = 0;

  virtual void encoder_forward(Real* out, std::uint64_t* out_of_range, const std::int32_t* tokens,
                               const Real* wte, const Real* wpe, llmc::encoder_shape shape) = 0;
  virtual void encoder_backward(Real* dwte, Real* dwpe, const std::int32_t* tokens,
                                const Real* dout, llmc::encoder_shape shape,
                                llmc::accumulation dwte_mode, llmc::accumulation dwpe_mode) = 0;

  virtual void layernorm_forward(Real* out, Real* mean, Real* rstd, const Real* inp,
                                 const Real* weight, const Real* bias, llmc::row_shape shape,
                                 Real epsilon) = 0;
  virtual void residual_layernorm_forward(Real* residual, Real* out, Real* mean, Real* rstd,
                                          const Real* inp1, const Real* inp2, const Real* weight,
                                          const Real* bias, llmc::row_shape shape,
                                          Real epsilon) = 0;
  virtual void residual_layernorm_backward(Real* dinp, Real* dinp_bias, Real* dweight, Real* dbias,
                                           const Real* dout, const Real* dresidual,
                                           const Real* residual, const Real* weight,
                                           const Real* mean, const Real* rstd,
                                           llmc::row_shape shape, llmc::accumulation mode) = 0;

  virtual void matmul_forward(Real* out, const Real* inp, const Real* weight, const Real* bias,
                              llmc::matmul_shape shape) = 0;
  /// The biases' gradients come from the layers that make what these read as dout.
  virtual void matmul_backward(Real* dinp, Real* dweight, const Real* dout, const Real* inp,
                               const Real* weight, llmc::matmul_shape shape,
                               llmc::accumulation mode) = 0;

  virtual void matmul_gelu_forward(Real* out, Real* before_gelu, const Real* inp,
                                   const Real* weight, const Real* bias,
                                   llmc::matmul_shape shape) = 0;
  virtual void gelu_forward(Real* out, const Real* inp, std::int64_t count) = 0;
  virtual void gelu_matmul_backward(Real* dgelu_inp, Real* dgelu_bias, Real* dweight,
                                    const Real* dout, const Real* gelu_inp, const Real* inp,
                                    const Real* weight, llmc::matmul_shape shape,
                                    llmc::accumulation mode) = 0;

  virtual void attention_forward(Real* out, Real* lse, const Real* qkv,
                                 llmc::attention_shape shape) = 0;
  virtual void attention_backward(Real* dqkv, Real* dqkv_bias, const Real* dout, const Real* qkv,
                                  const Real* out, const Real* lse, llmc::attention_shape shape,
                                  llmc::accumulation mode) = 0;

  virtual void crossentropy_forward(Real* losses, std::uint64_t* out_of_range, const Real* logits,
                                    const std::int32_t* targets, llmc::classifier_shape shape) = 0;
  virtual void classifier_forward_backward(Real* logits, Real* losses, std::uint64_t* out_of_range,
                                           const std::int32_t* targets,
                                           llmc::classifier_shape shape, Real dloss) = 0;

  virtual void loss_sum(double* sum, const Real* losses, std::int64_t count,
                        llmc::accumulation mode) = 0;
  virtual void skip_update_unless_sound(llmc::clip_state* clip, const double* loss,
                                        const std::uint64_t* out_of_range) = 0;
  virtual void global_norm(llmc::clip_state* result, const Real* grads, std::int64_t count,
                           float max_norm) = 0;
  /// Learning rate, step and clip state are in the device's memory.
  virtual void adamw_update_segments(Real* params, Real* m, Real* v, const Real* grads,
                                     const llmc::adamw_segment* segments,
                                     std::int64_t segment_count, llmc::adamw_parameters constants,
                                     const float* learning_rate, const std::int64_t* step,
                                     const llmc::clip_state* clip) = 0;
};

}  // namespace gpt2_trainer
