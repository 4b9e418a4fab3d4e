#include "gpt2/model/gpt2.hpp"
#include "gpt2/input_error.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace gpt2_trainer {
namespace {

using llmc::accumulation;

void require_in_range(const step_state& state, std::int64_t vocabulary) {
  if (state.out_of_range == 0) return;
  throw input_error(std::to_string(state.out_of_range) + " tokens or targets of this batch are " +
                    "not between 0 and " + std::to_string(vocabulary - 1));
}

}  // namespace

step_result pending_step::wait() {
  step_state state;
  state_->finish(&state);
  require_in_range(state, vocabulary_);
  return {state.loss / static_cast<double>(rows_), state.clip.norm, state.clip.finite != 0};
}

template <class Real>
step_shapes gpt2<Real>::shapes_of(std::int64_t b, std::int64_t t) const {
  const std::int64_t C = config_.channels;
  const std::int64_t rows = b * t;
  return {{b, t, C, config_.vocabulary},
          {rows, C},
          {rows, C, 3 * C},
          {b, t, config_.heads, config_.head_size()},
          {rows, C, C},
          {rows, C, 4 * C},
          {rows, 4 * C, C},
          layout_.count()};
}

// ---- the model ----

/// How many of `rows` rows have logits at the same time, in the memory that was planned.
template <class Real>
std::int64_t gpt2<Real>::logit_rows(std::int64_t rows) const {
  const std::int64_t planned = batch_ * sequence_;
  const bool all = planned <= memory_options_.most_logit_rows;
  return std::min(rows, all ? planned : memory_options_.logit_rows_of_many);
}

/// Calls `body(first, rows)` for as many rows at a time as there is room for logits.
template <class Real>
template <class Body>
void gpt2<Real>::for_each_run_of_logits(std::int64_t rows, Body body) {
  const std::int64_t run = logit_rows(rows);
  for (std::int64_t first = 0; first < rows; first += run) {
    body(first, std::min(run, rows - first));
  }
}

template <class Real>
void gpt2<Real>::forward(const step_shapes& shapes) {
  constexpr auto epsilon = static_cast<Real>(1e-5);
  const norm& first = blocks_.front().norm1;
  machine_.run(calls::encoder_forward<Real>{first.residual, &at_.state->out_of_range, at_.tokens,
                                            parameter_of(parameter::wte),
                                            parameter_of(parameter::wpe), shapes.encoder});
  machine_.run(calls::layernorm_forward<Real>{first.out, first.mean, first.rstd, first.residual,
                                              first.weight, first.bias, shapes.residual, epsilon});
  const auto through_linear = [&](Real* out, const Real* inp, const linear& layer,
                                  llmc::matmul_shape shape) {
    machine_.run(calls::matmul_forward<Real>{out, inp, layer.weight, layer.bias, shape});
  };
  const auto add_and_normalise = [&](const norm& n, const Real* residual, const Real* branch) {
    machine_.run(calls::residual_layernorm_forward<Real>{n.residual, n.out, n.mean, n.rstd,
                                                         residual, branch, n.weight, n.bias,
                                                         shapes.residual, epsilon});
  };
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    const block& x = blocks_[l];
    const norm& next = l + 1 < blocks_.size() ? blocks_[l + 1].norm1 : final_norm_;
    through_linear(x.qkv_out, x.norm1.out, x.qkv, shapes.qkv);
    machine_.run(calls::attention_forward<Real>{x.attention_out, x.attention_lse, x.qkv_out,
                                                shapes.attention});
    through_linear(at_.branch, x.attention_out, x.attproj, shapes.attproj);
    add_and_normalise(x.norm2, x.norm1.residual, at_.branch);
    machine_.run(calls::matmul_gelu_forward<Real>{x.gelu_out, x.fc_out, x.norm2.out, x.fc.weight,
                                                  x.fc.bias, shapes.fc});
    through_linear(at_.branch, x.gelu_out, x.fcproj, shapes.fcproj);
    add_and_normalise(next, x.norm2.residual, at_.branch);
  }
}

/// The logits of `rows` positions from `first` on; the head's weight is the token embedding.
template <class Real>
void gpt2<Real>::classify(std::int64_t first, std::int64_t rows) {
  const llmc::matmul_shape shape{rows, config_.channels, config_.padded_vocabulary};
  machine_.run(calls::matmul_forward<Real>{at_.logits, final_norm_.out + first * config_.channels,
                                           parameter_of(parameter::wte), nullptr, shape});
}

/// From the logits of these rows to their losses and to two gradients: that of the head's input, in
/// at_.branch, and that of its weight.
template <class Real>
void gpt2<Real>::classify_backward(std::int64_t first, std::int64_t rows, Real dloss,
                                   accumulation mode) {
  const std::int64_t C = config_.channels;
  const llmc::classifier_shape losses{rows, config_.vocabulary, config_.padded_vocabulary};
  const llmc::matmul_shape shape{rows, C, config_.padded_vocabulary};
  machine_.run(calls::classifier_forward_backward<Real>{at_.logits, at_.losses + first,
                                                        &at_.state->out_of_range,
                                                        at_.targets + first, losses, dloss});
  machine_.run(calls::matmul_backward<Real>{at_.branch + first * C, gradient_of(parameter::wte),
                                            at_.logits, final_norm_.out + first * C,
                                            parameter_of(parameter::wte), shape, mode});
}

/// From the gradient of the last layernorm's output, in at_.branch, to the gradients of all
/// parameters but the head.
template <class Real>
void gpt2<Real>::backward(const step_shapes& shapes, accumulation mode) {
  // The gradient of a bias is a sum over the gradient of its layer's output, so the call that makes
  // that gradient sums it, too: the norm after it for attproj and fcproj, attention for qkv, the
  // GELU for fc. `before`: the layer whose output the norm added to the residual stream, or null.
  const auto through_norm = [&](const norm& n, const Real* dresidual, const linear* before) {
    machine_.run(calls::residual_layernorm_backward<Real>{
        at_.dresidual, before == nullptr ? nullptr : before->dbias, n.dweight, n.dbias, at_.branch,
        dresidual, n.residual, n.weight, n.mean, n.rstd, shapes.residual, mode});
  };
  const auto through_linear = [&](const linear& layer, Real* dinp, const Real* dout,
                                  const Real* inp, llmc::matmul_shape shape) {
    machine_.run(
        calls::matmul_backward<Real>{dinp, layer.dweight, dout, inp, layer.weight, shape, mode});
  };
  const auto through_gelu_and_fcproj = [&](const block& x) {
    if (memory_options_.recompute_gelu) {
      machine_.run(
          calls::gelu_forward<Real>{x.gelu_out, x.fc_out, shapes.fc.rows * shapes.fc.out_channels});
    }
    machine_.run(calls::gelu_matmul_backward<Real>{at_.wide, x.fc.dbias, x.fcproj.dweight,
                                                   at_.dresidual, x.fc_out, x.gelu_out,
                                                   x.fcproj.weight, shapes.fcproj, mode});
  };

  through_norm(final_norm_, nullptr, &blocks_.back().fcproj);
  for (auto x = blocks_.rbegin(); x != blocks_.rend(); ++x) {
    const auto before = std::next(x);
    through_gelu_and_fcproj(*x);
    through_linear(x->fc, at_.branch, at_.wide, x->norm2.out, shapes.fc);
    through_norm(x->norm2, at_.dresidual, &x->attproj);
    through_linear(x->attproj, at_.branch, at_.dresidual, x->attention_out, shapes.attproj);
    machine_.run(calls::attention_backward<Real>{at_.wide, x->qkv.dbias, at_.branch, x->qkv_out,
                                                 x->attention_out, x->attention_lse,
                                                 shapes.attention, mode});
    through_linear(x->qkv, at_.branch, at_.wide, x->norm1.out, shapes.qkv);
    through_norm(x->norm1, at_.dresidual, before == blocks_.rend() ? nullptr : &before->fcproj);
  }
  // The head has already left its gradient in that of the token embedding.
  machine_.run(calls::encoder_backward<Real>{gradient_of(parameter::wte),
                                             gradient_of(parameter::wpe), at_.tokens, at_.dresidual,
                                             shapes.encoder, accumulation::add, mode});
}

// ---- steps ----

/// Checks the extents and brings the tokens to the device; `targets` may be null.
template <class Real>
step_shapes gpt2<Real>::begin(const std::int32_t* tokens, const std::int32_t* targets,
                              std::int64_t b, std::int64_t t) {
  require_extent("batch", b, 1, batch_);
  require_extent("sequence", t, 1, sequence_);
  const step_shapes shapes = shapes_of(b, t);
  const bool as_planned = b == batch_ && t == sequence_;
  if (!as_planned && machine_.workspace_bytes(shapes) > workspace_bytes_) {
    throw std::logic_error("gpt2: a smaller batch needs more workspace than was planned");
  }
  machine_.use_workspace({at_.workspace, workspace_bytes_});
  const std::size_t bytes = static_cast<std::size_t>(b * t) * sizeof(std::int32_t);
  machine_.upload(at_.tokens, tokens, bytes);
  if (targets != nullptr) machine_.upload(at_.targets, targets, bytes);
  return shapes;
}

template <class Real>
step_state gpt2<Real>::read_state() {
  step_state state;
  machine_.download(&state, at_.state, sizeof state);
  require_in_range(state, config_.vocabulary);
  return state;
}

/// Leaves the loss of each position in at_.losses.
template <class Real>
void gpt2<Real>::find_losses(const std::int32_t* tokens, const std::int32_t* targets,
                             std::int64_t b, std::int64_t t) {
  const step_shapes shapes = begin(tokens, targets, b, t);
  machine_.zero(&at_.state->out_of_range, sizeof at_.state->out_of_range);
  forward(shapes);
  for_each_run_of_logits(b * t, [&](std::int64_t first, std::int64_t rows) {
    classify(first, rows);
    machine_.run(calls::crossentropy_forward<Real>{
        at_.losses + first, &at_.state->out_of_range, at_.logits, at_.targets + first,
        llmc::classifier_shape{rows, config_.vocabulary, config_.padded_vocabulary}});
  });
}

template <class Real>
loss_sum gpt2<Real>::evaluate(const std::int32_t* tokens, const std::int32_t* targets,
                              std::int64_t b, std::int64_t t) {
  find_losses(tokens, targets, b, t);
  machine_.run(calls::loss_sum<Real>{&at_.state->loss, at_.losses, b * t, accumulation::overwrite});
  const auto ignored = std::count(targets, targets + b * t, llmc::ignored_target);
  return {read_state().loss, b * t - ignored};
}

template <class Real>
std::vector<Real> gpt2<Real>::losses(const std::int32_t* tokens, const std::int32_t* targets,
                                     std::int64_t b, std::int64_t t) {
  find_losses(tokens, targets, b, t);
  read_state();  // which refuses tokens and targets out of range
  return read(at_.losses, b * t);
}

template <class Real>
step_shapes gpt2<Real>::begin_micro_batch(const std::int32_t* tokens, const std::int32_t* targets,
                                          std::int64_t b, std::int64_t t, int micro_batch) {
  const step_shapes shapes = begin(tokens, targets, b, t);
  step_rows_ = (micro_batch == 0 ? 0 : step_rows_) + b * t;
  return shapes;
}

template <class Real>
void gpt2<Real>::begin_update(const update_options& options) {
  machine_.use_workspace({at_.workspace, workspace_bytes_});
  machine_.upload(&at_.state->learning_rate, &options.learning_rate, sizeof options.learning_rate);
  machine_.upload(&at_.state->step, &options.step, sizeof options.step);
}

/// Forward and backward where there are shapes, then the update where there is one. Equal calls
/// share a recording; where there are too many recordings already, the calls are made as they are.
template <class Real>
void gpt2<Real>::repeat(const step_shapes* shapes, int micro_batch, int micro_batches,
                        const update_options* update) {
  constexpr std::size_t most_recordings = 8;
  const auto make_calls = [&] {
    if (shapes != nullptr) accumulate_gradients(*shapes, micro_batch, micro_batches);
    if (update != nullptr) apply_gradients(*update);
  };
  if (machine_.is_watched()) return make_calls();  // a replay has no calls to time
  recorded_calls key;
  if (shapes != nullptr) {
    key.gradients = recorded_calls::gradients_of{shapes->encoder.batch, shapes->encoder.sequence,
                                                 micro_batch == 0, micro_batches};
  }
  if (update != nullptr) {
    key.update = recorded_calls::update_by{update->beta1, update->beta2, update->epsilon,
                                           update->weight_decay, update->max_norm};
  }
  const auto found = recordings_.find(key);
  if (found == recordings_.end() && recordings_.size() == most_recordings) return make_calls();
  std::unique_ptr<recording>& of_these = recordings_[key];
  if (of_these == nullptr) of_these = machine_.record();
  of_these->run(make_calls);
}

template <class Real>
void gpt2<Real>::accumulate_gradients(const step_shapes& shapes, int micro_batch,
                                      int micro_batches) {
  const std::int64_t count = shapes.residual.rows;
  const accumulation mode = micro_batch == 0 ? accumulation::overwrite : accumulation::add;
  if (mode == accumulation::overwrite) {
    machine_.zero(&at_.state->out_of_range, sizeof at_.state->out_of_range);
    // encoder_backward writes the positions in use. In the others a longer sequence may have left
    // its gradients.
    const std::int64_t used = shapes.encoder.sequence * config_.channels;
    const std::int64_t all = config_.max_sequence * config_.channels;
    machine_.zero(gradient_of(parameter::wpe) + used,
                  static_cast<std::size_t>(all - used) * sizeof(Real));
  }
  forward(shapes);
  const auto dloss = static_cast<Real>(1 / (micro_batches * static_cast<double>(count)));
  for_each_run_of_logits(count, [&](std::int64_t first, std::int64_t rows) {
    classify(first, rows);
    classify_backward(first, rows, dloss, first == 0 ? mode : accumulation::add);
  });
  machine_.run(calls::loss_sum<Real>{&at_.state->loss, at_.losses, count, mode});
  backward(shapes, mode);
}

template <class Real>
void gpt2<Real>::apply_gradients(const update_options& options) {
  machine_.run(
      calls::global_norm<Real>{&at_.state->clip, at_.gradients, layout_.count(), options.max_norm});
  machine_.run(calls::skip_update_unless_sound<Real>{&at_.state->clip, &at_.state->loss,
                                                     &at_.state->out_of_range});
  std::vector<llmc::adamw_segment> segments;
  for (const parameter_tensor& tensor : layout_) segments.push_back({tensor.count, tensor.decay});
  const llmc::adamw_parameters constants{options.beta1, options.beta2, options.epsilon,
                                         options.weight_decay};
  machine_.run(calls::adamw_update_segments<Real>{
      at_.parameters, at_.moments_m, at_.moments_v, at_.gradients, segments.data(),
      static_cast<std::int64_t>(segments.size()), constants, &at_.state->learning_rate,
      &at_.state->step, &at_.state->clip});
}

template <class Real>
void gpt2<Real>::forward_backward(const std::int32_t* tokens, const std::int32_t* targets,
                                  std::int64_t b, std::int64_t t, int micro_batch,
                                  int micro_batches) {
  const step_shapes shapes = begin_micro_batch(tokens, targets, b, t, micro_batch);
  repeat(&shapes, micro_batch, micro_batches, nullptr);
}

template <class Real>
double gpt2<Real>::loss() {
  return read_state().loss / static_cast<double>(step_rows_);
}

template <class Real>
pending_step gpt2<Real>::pending_update() {
  return {machine_.start_download(at_.state, sizeof *at_.state), step_rows_, config_.vocabulary};
}

template <class Real>
pending_step gpt2<Real>::update(const update_options& options) {
  begin_update(options);
  repeat(nullptr, 0, 0, &options);
  return pending_update();
}

template <class Real>
pending_step gpt2<Real>::step(const std::int32_t* tokens, const std::int32_t* targets,
                              std::int64_t b, std::int64_t t, int micro_batch, int micro_batches,
                              const update_options& options) {
  const step_shapes shapes = begin_micro_batch(tokens, targets, b, t, micro_batch);
  begin_update(options);
  repeat(&shapes, micro_batch, micro_batches, &options);
  return pending_update();
}

template <class Real>
std::vector<Real> gpt2<Real>::logits(const std::int32_t* tokens, std::int64_t b, std::int64_t t) {
  const step_shapes shapes = begin(tokens, nullptr, b, t);
  forward(shapes);
  std::vector<Real> result;
  result.reserve(static_cast<std::size_t>(b * t * config_.vocabulary));
  for_each_run_of_logits(b * t, [&](std::int64_t first, std::int64_t rows) {
    classify(first, rows);
    const std::vector<Real> padded = read(at_.logits, rows * config_.padded_vocabulary);
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto begin = padded.begin() + row * config_.padded_vocabulary;
      result.insert(result.end(), begin, begin + config_.vocabulary);
    }
  });
  return result;
}

template <class Real>
std::vector<Real> gpt2<Real>::logits_at(const std::int32_t* tokens, std::int64_t t,
                                        std::int64_t position) {
  require_extent("position + 1", position + 1, 1, t);
  forward(begin(tokens, nullptr, 1, t));
  classify(position, 1);
  return read(at_.logits, config_.vocabulary);
}

template class gpt2<float>;
template class gpt2<double>;

}  // namespace gpt2_trainer
