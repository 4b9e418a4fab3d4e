/// @file
/// GPT-2's training step, composed of llmc's layers over a backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <llmc/types.hpp>

#include "gpt2/machine/backend.hpp"
#include "gpt2/model/config.hpp"
#include "gpt2/model/memory_planner.hpp"
#include "gpt2/model/parameters.hpp"
#include "gpt2/model/recorded_calls.hpp"

namespace gpt2_trainer {

/// How a model uses memory. None of it changes what is computed; only rounding differs, where sums
/// over rows are cut in other places.
struct memory_options {
  /// Whether backward computes the GELUs' outputs anew instead of keeping them.
  bool recompute_gelu = false;
  /// A batch of up to that many rows has all its logits at the same time, which is the fastest.
  std::int64_t most_logit_rows = 4096;
  /// In a larger batch, logits are made, used and overwritten for that many rows at a time: all its
  /// logits would take a quarter of its memory.
  std::int64_t logit_rows_of_many = 2048;
};

/// The sum of the losses of the tokens that counted: all but those whose target is ignored.
struct loss_sum {
  double sum;
  std::int64_t tokens;
};

struct update_options {
  float beta1;
  float beta2;
  float epsilon;
  float weight_decay;
  float learning_rate;
  float max_norm;     ///< gradients are clipped to this norm; not at all if it is <= 0
  std::int64_t step;  ///< counts from 1
};

struct step_result {
  double loss;          ///< the mean over the step's positions
  float gradient_norm;  ///< before clipping
  bool finite;          ///< if not, loss or norm are not, and the update was skipped
};

/// What changes from step to step, in the device's memory.
struct step_state {
  llmc::clip_state clip;
  float learning_rate;
  std::int64_t step;
  std::uint64_t out_of_range;
  double loss;
};

/// A step that was queued.
class pending_step {
 public:
  pending_step(std::unique_ptr<pending_download> state, std::int64_t rows, std::int64_t vocabulary)
      : state_(std::move(state)), rows_(rows), vocabulary_(vocabulary) {}

  /// Whether `wait` would not wait.
  bool is_over() const { return state_->is_over(); }
  /// Waits for the step. Throws input_error, with the number, if tokens or targets lay outside the
  /// vocabulary; the update was skipped then.
  step_result wait();

 private:
  std::unique_ptr<pending_download> state_;
  std::int64_t rows_;
  std::int64_t vocabulary_;
};

/// AdamW's running means of the gradients and of their squares, laid out as the parameters.
template <class Real>
struct adamw_moments {
  std::vector<Real> m;
  std::vector<Real> v;
};

/// Instantiated for float and double. The constructor allocates all memory, from a backend that
/// must outlive the model; a backend may serve several models, one after another. Every step works
/// on b sequences of t tokens, row by row; b is at most `batch`, t at most `sequence`.
template <class Real>
class gpt2 {
 public:
  gpt2(const gpt2_config& config, backend<Real>& machine, std::int64_t batch, std::int64_t sequence,
       memory_options memory = {});
  gpt2(const gpt2&) = delete;
  gpt2& operator=(const gpt2&) = delete;

  const gpt2_config& config() const { return config_; }
  const parameter_layout& layout() const { return layout_; }
  std::int64_t parameter_count() const { return layout_.count(); }
  const std::vector<memory_item>& memory_plan() const { return plan_; }

  /// In the order of parameter_layout; zero until set.
  void set_parameters(const std::vector<Real>& values);
  std::vector<Real> parameters() const;
  std::vector<Real> gradients() const;
  void set_moments(const adamw_moments<Real>& values);
  adamw_moments<Real> moments() const;

  loss_sum evaluate(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t b,
                    std::int64_t t);
  /// The loss of each position, (b, t); 0 where the target is ignored.
  std::vector<Real> losses(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t b,
                           std::int64_t t);

  /// Forward and backward over one micro-batch of a step. The gradients are those of the mean over
  /// micro_batches * b * t tokens: the first micro-batch (0) overwrites them, later ones add.
  void forward_backward(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t b,
                        std::int64_t t, int micro_batch, int micro_batches);

  /// Waits for the micro-batches of this step so far. Their mean loss; throws input_error, with the
  /// number, if tokens or targets lay outside the vocabulary.
  double loss();

  /// Clips and applies the gradients, or skips itself if something was not finite or out of range.
  pending_step update(const update_options& options);

  /// A step's last micro-batch and its update.
  pending_step step(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t b,
                    std::int64_t t, int micro_batch, int micro_batches,
                    const update_options& options);

  /// The logits of all positions, (b, t, V) without padding.
  std::vector<Real> logits(const std::int32_t* tokens, std::int64_t b, std::int64_t t);

  /// The V logits of one position of one sequence.
  std::vector<Real> logits_at(const std::int32_t* tokens, std::int64_t t, std::int64_t position);

 private:
  struct linear {
    const Real* weight;
    const Real* bias;
    Real* dweight;
    Real* dbias;
  };
  /// A layernorm and the residual stream that it reads.
  struct norm {
    const Real* weight;
    const Real* bias;
    Real* dweight;
    Real* dbias;
    Real* residual;
    Real* out;
    Real* mean;
    Real* rstd;
  };
  struct block {
    norm norm1;
    linear qkv;
    linear attproj;
    norm norm2;
    linear fc;
    linear fcproj;
    Real* qkv_out;
    Real* attention_out;
    Real* attention_lse;
    Real* fc_out;
    Real* gelu_out;
  };
  /// The arrays of the memory plan; those of activations are over all layers.
  struct arrays {
    Real* parameters;
    Real* gradients;
    Real* moments_m;
    Real* moments_v;
    std::int32_t* tokens;
    std::int32_t* targets;
    Real* residuals;
    Real* norms;
    Real* means;
    Real* rstds;
    Real* qkv;
    Real* attention;
    Real* attention_lse;
    Real* fc;
    Real* gelu;
    Real* logits;
    Real* losses;
    Real* branch;     ///< (B, T, C): what a branch adds to the residual stream; its gradients
    Real* dresidual;  ///< (B, T, C): the gradient of the residual stream, updated in place
    Real* wide;       ///< (B, T, 4C): gradients inside a branch, where the logits were before
    step_state* state;
    std::byte* workspace;
  };

  void allocate();
  void wire();
  linear wire_linear(parameter weight, parameter bias, std::int64_t layer) const;
  norm wire_norm(parameter weight, parameter bias, std::int64_t layer, std::int64_t place) const;
  Real* parameter_of(parameter p, std::int64_t layer = 0) const;
  Real* gradient_of(parameter p, std::int64_t layer = 0) const;

  step_shapes shapes_of(std::int64_t b, std::int64_t t) const;
  step_shapes begin(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t b,
                    std::int64_t t);
  void find_losses(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t b,
                   std::int64_t t);
  step_shapes begin_micro_batch(const std::int32_t* tokens, const std::int32_t* targets,
                                std::int64_t b, std::int64_t t, int micro_batch);
  void begin_update(const update_options& options);
  void repeat(const step_shapes* shapes, int micro_batch, int micro_batches,
              const update_options* update);
  void accumulate_gradients(const step_shapes& shapes, int micro_batch, int micro_batches);
  void apply_gradients(const update_options& options);
  pending_step pending_update();

  std::int64_t logit_rows(std::int64_t rows) const;
  template <class Body>
  void for_each_run_of_logits(std::int64_t rows, Body body);
  void forward(const step_shapes& shapes);
  void classify(std::int64_t first, std::int64_t rows);
  void classify_backward(std::int64_t first, std::int64_t rows, Real dloss,
                         llmc::accumulation mode);
  void backward(const step_shapes& shapes, llmc::accumulation mode);
  step_state read_state();
  std::vector<Real> read(const Real* from, std::int64_t count) const;
  void write(Real* to, const std::vector<Real>& values);

  gpt2_config config_;
  parameter_layout layout_;
  backend<Real>& machine_;
  std::int64_t batch_;
  std::int64_t sequence_;
  memory_options memory_options_;
  std::vector<memory_item> plan_;
  std::shared_ptr<void> memory_;
  std::size_t workspace_bytes_ = 0;
  arrays at_{};
  std::vector<block> blocks_;
  norm final_norm_{};
  std::int64_t step_rows_ = 0;  ///< of this step's micro-batches so far
  /// Found by all that their calls depend on.
  std::map<recorded_calls, std::unique_ptr<recording>> recordings_;
};

}  // namespace gpt2_trainer
