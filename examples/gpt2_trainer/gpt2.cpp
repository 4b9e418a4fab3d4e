#include "gpt2.hpp"

#include <functional>
#include <stdexcept>

namespace gpt2_trainer {
namespace {

using llmc::accumulation;

/// Collects arrays, then allocates them in one go and sets the pointers to them.
class memory_planner {
 public:
  template <class T>
  void add(T*& pointer, const char* name, std::int64_t count) {
    constexpr std::size_t alignment = 256;
    const std::size_t bytes = llmc::checks::bytes<T>("gpt2_trainer::gpt2", count);
    setters_.push_back([&pointer, offset = total_](std::byte* base) {
      pointer = reinterpret_cast<T*>(base + offset);
    });
    items_.push_back({name, bytes});
    total_ += (bytes + alignment - 1) / alignment * alignment;
  }

  template <class Real>
  std::shared_ptr<void> allocate(backend<Real>& machine) const {
    std::shared_ptr<void> memory = machine.allocate(total_);
    for (const auto& set : setters_) set(static_cast<std::byte*>(memory.get()));
    return memory;
  }

  const std::vector<memory_item>& items() const { return items_; }

 private:
  std::vector<std::function<void(std::byte*)>> setters_;
  std::vector<memory_item> items_;
  std::size_t total_ = 0;
};

void require_fits(const char* name, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most) {
    throw input_error(std::string(name) + " must be between 1 and " + std::to_string(most) +
                      ", got " + std::to_string(value));
  }
}

}  // namespace

// ---- memory ----

template <class Real>
gpt2<Real>::gpt2(const gpt2_config& config, backend<Real>& machine, std::int64_t batch,
                 std::int64_t sequence)
    : config_((validate(config), config)),
      layout_(config),
      machine_(machine),
      batch_(batch),
      sequence_(sequence) {
  require_fits("batch", batch, std::int64_t{1} << 31);
  require_fits("sequence", sequence, config.max_sequence);
  allocate();
  wire();
}

template <class Real>
void gpt2<Real>::allocate() {
  const std::int64_t rows = batch_ * sequence_;
  const std::int64_t L = config_.layers;
  const std::int64_t C = config_.channels;
  const std::int64_t norms = 2 * L + 1;
  workspace_bytes_ = machine_.workspace_bytes(shapes_of(batch_, sequence_));

  memory_planner plan;
  plan.add(at_.parameters, "parameters", layout_.count());
  plan.add(at_.gradients, "gradients", layout_.count());
  plan.add(at_.moments_m, "AdamW first moments", layout_.count());
  plan.add(at_.moments_v, "AdamW second moments", layout_.count());
  plan.add(at_.tokens, "tokens", rows);
  plan.add(at_.targets, "targets", rows);
  plan.add(at_.residuals, "residual stream", norms * rows * C);
  plan.add(at_.norms, "layernorm outputs", norms * rows * C);
  plan.add(at_.means, "layernorm means", norms * rows);
  plan.add(at_.rstds, "layernorm deviations", norms * rows);
  plan.add(at_.qkv, "queries, keys, values", L * rows * 3 * C);
  plan.add(at_.attention, "attention outputs", L * rows * C);
  plan.add(at_.attention_lse, "attention log-sums", L * rows * config_.heads);
  plan.add(at_.fc, "MLP before GELU", L * rows * 4 * C);
  plan.add(at_.gelu, "MLP after GELU", L * rows * 4 * C);
  plan.add(at_.logits, "logits", rows * config_.padded_vocabulary);
  plan.add(at_.losses, "losses", rows);
  plan.add(at_.branch, "branch", rows * C);
  plan.add(at_.dresidual, "residual gradient", rows * C);
  plan.add(at_.wide, "branch gradients", rows * 4 * C);
  plan.add(at_.state, "step state", 1);
  plan.add(at_.workspace, "workspace", static_cast<std::int64_t>(workspace_bytes_));
  memory_ = plan.allocate(machine_);
  plan_ = plan.items();
  if (machine_.own_bytes() > 0) plan_.push_back({"products' workspace", machine_.own_bytes()});
  losses_.resize(static_cast<std::size_t>(rows));
}

template <class Real>
void gpt2<Real>::wire() {
  const std::int64_t rows = batch_ * sequence_;
  const std::int64_t C = config_.channels;
  for (std::int64_t l = 0; l < config_.layers; ++l) {
    blocks_.push_back({wire_norm(parameter::ln1w, parameter::ln1b, l, 2 * l),
                       wire_linear(parameter::qkvw, parameter::qkvb, l),
                       wire_linear(parameter::attprojw, parameter::attprojb, l),
                       wire_norm(parameter::ln2w, parameter::ln2b, l, 2 * l + 1),
                       wire_linear(parameter::fcw, parameter::fcb, l),
                       wire_linear(parameter::fcprojw, parameter::fcprojb, l),
                       at_.qkv + l * rows * 3 * C, at_.attention + l * rows * C,
                       at_.attention_lse + l * rows * config_.heads, at_.fc + l * rows * 4 * C,
                       at_.gelu + l * rows * 4 * C});
  }
  final_norm_ = wire_norm(parameter::lnfw, parameter::lnfb, 0, 2 * config_.layers);
}

template <class Real>
Real* gpt2<Real>::parameter_of(parameter p, std::int64_t layer) const {
  return at_.parameters + layout_[p].offset + layer * layout_[p].per_layer;
}

template <class Real>
Real* gpt2<Real>::gradient_of(parameter p, std::int64_t layer) const {
  return at_.gradients + layout_[p].offset + layer * layout_[p].per_layer;
}

template <class Real>
auto gpt2<Real>::wire_linear(parameter weight, parameter bias, std::int64_t layer) const -> linear {
  return {parameter_of(weight, layer), parameter_of(bias, layer), gradient_of(weight, layer),
          gradient_of(bias, layer)};
}

/// `place` counts the layernorms from the first of the model on.
template <class Real>
auto gpt2<Real>::wire_norm(parameter weight, parameter bias, std::int64_t layer,
                           std::int64_t place) const -> norm {
  const std::int64_t rows = batch_ * sequence_;
  return {parameter_of(weight, layer),
          parameter_of(bias, layer),
          gradient_of(weight, layer),
          gradient_of(bias, layer),
          at_.residuals + place * rows * config_.channels,
          at_.norms + place * rows * config_.channels,
          at_.means + place * rows,
          at_.rstds + place * rows};
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
          {rows, C, config_.padded_vocabulary},
          {rows, config_.vocabulary, config_.padded_vocabulary},
          layout_.count()};
}

// ---- the model ----

template <class Real>
void gpt2<Real>::forward(const step_shapes& shapes) {
  constexpr auto epsilon = static_cast<Real>(1e-5);
  const norm& first = blocks_.front().norm1;
  machine_.encoder_forward(first.residual, &at_.state->out_of_range, at_.tokens,
                           parameter_of(parameter::wte), parameter_of(parameter::wpe),
                           shapes.encoder);
  machine_.layernorm_forward(first.out, first.mean, first.rstd, first.residual, first.weight,
                             first.bias, shapes.residual, epsilon);
  const auto through_linear = [&](Real* out, const Real* inp, const linear& layer,
                                  llmc::matmul_shape shape) {
    machine_.matmul_forward(out, inp, layer.weight, layer.bias, shape);
  };
  const auto add_and_normalise = [&](const norm& n, const Real* residual, const Real* branch) {
    machine_.residual_layernorm_forward(n.residual, n.out, n.mean, n.rstd, residual, branch,
                                        n.weight, n.bias, shapes.residual, epsilon);
  };
  for (std::size_t l = 0; l < blocks_.size(); ++l) {
    const block& x = blocks_[l];
    const norm& next = l + 1 < blocks_.size() ? blocks_[l + 1].norm1 : final_norm_;
    through_linear(x.qkv_out, x.norm1.out, x.qkv, shapes.qkv);
    machine_.attention_forward(x.attention_out, x.attention_lse, x.qkv_out, shapes.attention);
    through_linear(at_.branch, x.attention_out, x.attproj, shapes.attproj);
    add_and_normalise(x.norm2, x.norm1.residual, at_.branch);
    machine_.matmul_gelu_forward(x.gelu_out, x.fc_out, x.norm2.out, x.fc.weight, x.fc.bias,
                                 shapes.fc);
    through_linear(at_.branch, x.gelu_out, x.fcproj, shapes.fcproj);
    add_and_normalise(next, x.norm2.residual, at_.branch);
  }
}

/// The logits of `rows` positions from `first` on; the head's weight is the token embedding.
template <class Real>
void gpt2<Real>::classify(std::int64_t first, std::int64_t rows) {
  machine_.matmul_forward(at_.logits, final_norm_.out + first * config_.channels,
                          parameter_of(parameter::wte), nullptr,
                          {rows, config_.channels, config_.padded_vocabulary});
}

/// From dlogits, in the logits' place, to the gradients of all parameters.
template <class Real>
void gpt2<Real>::backward(const step_shapes& shapes, accumulation mode) {
  const auto through_norm = [&](const norm& n, const Real* dresidual) {
    machine_.residual_layernorm_backward(at_.dresidual, n.dweight, n.dbias, at_.branch, dresidual,
                                         n.residual, n.weight, n.mean, n.rstd, shapes.residual,
                                         mode);
  };
  const auto through_linear = [&](const linear& layer, Real* dinp, const Real* dout,
                                  const Real* inp, llmc::matmul_shape shape) {
    machine_.matmul_backward(dinp, layer.dweight, layer.dbias, dout, inp, layer.weight, shape,
                             mode);
  };
  // Leaves the gradient of the MLP's first bias, too, which is a sum of what it computes.
  const auto through_gelu_and_fcproj = [&](const block& x) {
    machine_.gelu_matmul_backward(at_.wide, x.fc.dbias, x.fcproj.dweight, x.fcproj.dbias,
                                  at_.dresidual, x.fc_out, x.gelu_out, x.fcproj.weight,
                                  shapes.fcproj, mode);
  };

  const linear head{parameter_of(parameter::wte), nullptr, gradient_of(parameter::wte), nullptr};
  through_linear(head, at_.branch, at_.logits, final_norm_.out, shapes.head);
  through_norm(final_norm_, nullptr);
  for (auto x = blocks_.rbegin(); x != blocks_.rend(); ++x) {
    through_gelu_and_fcproj(*x);
    const linear fc{x->fc.weight, x->fc.bias, x->fc.dweight, nullptr};
    through_linear(fc, at_.branch, at_.wide, x->norm2.out, shapes.fc);
    through_norm(x->norm2, at_.dresidual);
    through_linear(x->attproj, at_.branch, at_.dresidual, x->attention_out, shapes.attproj);
    machine_.attention_backward(at_.wide, at_.branch, x->qkv_out, x->attention_out,
                                x->attention_lse, shapes.attention);
    through_linear(x->qkv, at_.branch, at_.wide, x->norm1.out, shapes.qkv);
    through_norm(x->norm1, at_.dresidual);
  }
  // The head has already left its gradient in that of the token embedding.
  machine_.encoder_backward(gradient_of(parameter::wte), gradient_of(parameter::wpe), at_.tokens,
                            at_.dresidual, shapes.encoder, accumulation::add, mode);
}

// ---- steps ----

/// Checks the extents and brings the tokens to the device; `targets` may be null.
template <class Real>
step_shapes gpt2<Real>::begin(const std::int32_t* tokens, const std::int32_t* targets,
                              std::int64_t b, std::int64_t t) {
  require_fits("batch", b, batch_);
  require_fits("sequence", t, sequence_);
  const step_shapes shapes = shapes_of(b, t);
  const bool as_planned = b == batch_ && t == sequence_;
  if (!as_planned && machine_.workspace_bytes(shapes) > workspace_bytes_) {
    throw std::logic_error("gpt2: a smaller batch needs more workspace than was planned");
  }
  machine_.use_workspace(at_.workspace);
  const std::size_t bytes = static_cast<std::size_t>(b * t) * sizeof(std::int32_t);
  machine_.upload(at_.tokens, tokens, bytes);
  if (targets != nullptr) machine_.upload(at_.targets, targets, bytes);
  machine_.zero(&at_.state->out_of_range, sizeof at_.state->out_of_range);
  return shapes;
}

template <class Real>
loss_sum gpt2<Real>::evaluate(const std::int32_t* tokens, const std::int32_t* targets,
                              std::int64_t b, std::int64_t t) {
  const step_shapes shapes = begin(tokens, targets, b, t);
  forward(shapes);
  classify(0, b * t);
  machine_.crossentropy_forward(at_.losses, &at_.state->out_of_range, at_.logits, at_.targets,
                                shapes.classifier);
  return read_losses(targets, b * t);
}

template <class Real>
double gpt2<Real>::forward_backward(const std::int32_t* tokens, const std::int32_t* targets,
                                    std::int64_t b, std::int64_t t, int micro_batch,
                                    int micro_batches) {
  const step_shapes shapes = begin(tokens, targets, b, t);
  const auto rows = static_cast<double>(b * t);
  forward(shapes);
  classify(0, b * t);
  machine_.classifier_forward_backward(at_.logits, at_.losses, &at_.state->out_of_range,
                                       at_.targets, shapes.classifier,
                                       static_cast<Real>(1 / (micro_batches * rows)));
  if (micro_batch == 0) {
    // encoder_backward writes the positions in use; a longer sequence may have left the others.
    const std::int64_t unused = (config_.max_sequence - t) * config_.channels;
    machine_.zero(gradient_of(parameter::wpe) + t * config_.channels,
                  static_cast<std::size_t>(unused) * sizeof(Real));
  }
  backward(shapes, micro_batch == 0 ? accumulation::overwrite : accumulation::add);
  return read_losses(targets, b * t).sum / rows;
}

template <class Real>
update_result gpt2<Real>::update(const update_options& options) {
  machine_.use_workspace(at_.workspace);
  machine_.upload(&at_.state->learning_rate, &options.learning_rate, sizeof options.learning_rate);
  machine_.upload(&at_.state->step, &options.step, sizeof options.step);
  machine_.global_norm(&at_.state->clip, at_.gradients, layout_.count(), options.max_norm);
  std::vector<llmc::adamw_segment> segments;
  for (const parameter_tensor& tensor : layout_) segments.push_back({tensor.count, tensor.decay});
  machine_.adamw_update_segments(
      at_.parameters, at_.moments_m, at_.moments_v, at_.gradients, segments.data(),
      static_cast<std::int64_t>(segments.size()),
      {options.beta1, options.beta2, options.epsilon, options.weight_decay},
      &at_.state->learning_rate, &at_.state->step, &at_.state->clip);
  llmc::clip_state clip;
  machine_.download(&clip, &at_.state->clip, sizeof clip);
  return {clip.norm, clip.finite != 0};
}

/// Waits for the step and adds up its losses.
template <class Real>
loss_sum gpt2<Real>::read_losses(const std::int32_t* targets, std::int64_t rows) {
  machine_.download(losses_.data(), at_.losses, static_cast<std::size_t>(rows) * sizeof(Real));
  std::uint64_t out_of_range = 0;
  machine_.download(&out_of_range, &at_.state->out_of_range, sizeof out_of_range);
  if (out_of_range > 0) {
    throw input_error(std::to_string(out_of_range) + " tokens or targets of this batch are not " +
                      "between 0 and " + std::to_string(config_.vocabulary - 1));
  }
  loss_sum result{0, 0};
  for (std::int64_t row = 0; row < rows; ++row) {
    result.sum += static_cast<double>(losses_[static_cast<std::size_t>(row)]);
    result.tokens += targets[row] != llmc::ignored_target;
  }
  return result;
}

template <class Real>
std::vector<Real> gpt2<Real>::logits(const std::int32_t* tokens, std::int64_t b, std::int64_t t) {
  const step_shapes shapes = begin(tokens, nullptr, b, t);
  forward(shapes);
  classify(0, b * t);
  const std::vector<Real> rows = read(at_.logits, b * t * config_.padded_vocabulary);
  std::vector<Real> result;
  result.reserve(static_cast<std::size_t>(b * t * config_.vocabulary));
  for (std::int64_t row = 0; row < b * t; ++row) {
    const auto first = rows.begin() + row * config_.padded_vocabulary;
    result.insert(result.end(), first, first + config_.vocabulary);
  }
  return result;
}

template <class Real>
std::vector<Real> gpt2<Real>::logits_at(const std::int32_t* tokens, std::int64_t t,
                                        std::int64_t position) {
  require_fits("position + 1", position + 1, t);
  forward(begin(tokens, nullptr, 1, t));
  classify(position, 1);
  return read(at_.logits, config_.vocabulary);
}

// ---- state ----

template <class Real>
std::vector<Real> gpt2<Real>::read(const Real* from, std::int64_t count) const {
  std::vector<Real> values(static_cast<std::size_t>(count));
  machine_.download(values.data(), from, values.size() * sizeof(Real));
  return values;
}

template <class Real>
void gpt2<Real>::write(Real* to, const std::vector<Real>& values) {
  if (values.size() != static_cast<std::size_t>(layout_.count())) {
    throw std::invalid_argument("gpt2: wanted " + std::to_string(layout_.count()) +
                                " numbers, got " + std::to_string(values.size()));
  }
  machine_.upload(to, values.data(), values.size() * sizeof(Real));
}

template <class Real>
void gpt2<Real>::set_parameters(const std::vector<Real>& values) {
  write(at_.parameters, values);
}

template <class Real>
std::vector<Real> gpt2<Real>::parameters() const {
  return read(at_.parameters, layout_.count());
}

template <class Real>
std::vector<Real> gpt2<Real>::gradients() const {
  return read(at_.gradients, layout_.count());
}

template <class Real>
void gpt2<Real>::set_moments(const adamw_moments<Real>& values) {
  write(at_.moments_m, values.m);
  write(at_.moments_v, values.v);
}

template <class Real>
adamw_moments<Real> gpt2<Real>::moments() const {
  return {read(at_.moments_m, layout_.count()), read(at_.moments_v, layout_.count())};
}

template class gpt2<float>;
template class gpt2<double>;

}  // namespace gpt2_trainer
