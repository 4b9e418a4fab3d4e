// The arrays of a model, which of them each layer uses, and what goes into them and comes out.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "gpt2/model/gpt2.hpp"

namespace gpt2_trainer {

template <class Real>
gpt2<Real>::gpt2(const gpt2_config& config, backend<Real>& machine, std::int64_t batch,
                 std::int64_t sequence, memory_options memory)
    : config_((validate(config), config)),
      layout_(config),
      machine_(machine),
      batch_(batch),
      sequence_(sequence),
      memory_options_(memory) {
  require_extent("batch", batch, 1, std::int64_t{1} << 31);
  require_extent("sequence", sequence, 1, config.max_sequence);
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
  plan.add(at_.gelu, "MLP after GELU", (memory_options_.recompute_gelu ? 1 : L) * rows * 4 * C);
  // Logits are no more once the gradients inside the branches begin.
  plan.add(at_.logits, "logits, gradients in branches",
           std::max(logit_rows(rows) * config_.padded_vocabulary, rows * 4 * C));
  plan.add(at_.losses, "losses", rows);
  plan.add(at_.branch, "branch", rows * C);
  plan.add(at_.dresidual, "residual gradient", rows * C);
  plan.add(at_.state, "step state", 1);
  plan.add(at_.workspace, "workspace", static_cast<std::int64_t>(workspace_bytes_));
  memory_ = plan.allocate(machine_);
  at_.wide = at_.logits;
  plan_ = plan.items();
  if (machine_.own_bytes() > 0) plan_.push_back({"products' workspace", machine_.own_bytes()});
}

template <class Real>
void gpt2<Real>::wire() {
  const std::int64_t rows = batch_ * sequence_;
  const std::int64_t C = config_.channels;
  const std::int64_t kept_gelu = memory_options_.recompute_gelu ? 0 : rows * 4 * C;
  for (std::int64_t l = 0; l < config_.layers; ++l) {
    blocks_.push_back({wire_norm(parameter::ln1w, parameter::ln1b, l, 2 * l),
                       wire_linear(parameter::qkvw, parameter::qkvb, l),
                       wire_linear(parameter::attprojw, parameter::attprojb, l),
                       wire_norm(parameter::ln2w, parameter::ln2b, l, 2 * l + 1),
                       wire_linear(parameter::fcw, parameter::fcb, l),
                       wire_linear(parameter::fcprojw, parameter::fcprojb, l),
                       at_.qkv + l * rows * 3 * C, at_.attention + l * rows * C,
                       at_.attention_lse + l * rows * config_.heads, at_.fc + l * rows * 4 * C,
                       at_.gelu + l * kept_gelu});
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
