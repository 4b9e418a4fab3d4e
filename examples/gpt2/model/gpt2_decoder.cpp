#include "gpt2/model/gpt2_decoder.hpp"

#include <algorithm>
#include <stdexcept>

namespace gpt2_trainer {
namespace {

/// The rows of a pass over a long prompt: enough for full speed, few enough for little memory.
constexpr std::int64_t rows_of_prompts = 256;

decode_layers<float>& layers_of(backend<float>& machine) {
  decode_layers<float>* const layers = machine.decoding();
  if (layers == nullptr) throw std::logic_error("gpt2_decoder: this machine has no decode layers");
  return *layers;
}

}  // namespace

gpt2_decoder::gpt2_decoder(const gpt2_config& config, backend<float>& machine, std::int64_t batch,
                           std::int64_t context)
    : config_((validate(config), config)),
      layout_(config),
      machine_(machine),
      layers_(layers_of(machine)),
      batch_(batch),
      context_(context),
      most_rows_(std::max(batch, std::min(batch * context, rows_of_prompts))),
      cached_(static_cast<std::size_t>(batch)) {
  require_extent("batch", batch, 1, std::int64_t{1} << 31);
  require_extent("context", context, 1, config.max_sequence);
  const std::int64_t C = config.channels;
  const std::int64_t rows = most_rows_;
  memory_planner plan;
  plan.add(at_.parameters, "parameters", layout_.count());
  plan.add(at_.keys, "keys", config.layers * batch * context * C);
  plan.add(at_.values, "values", config.layers * batch * context * C);
  plan.add(at_.tokens, "tokens", rows);
  plan.add(at_.places, "places", rows);
  plan.add(at_.residual, "residual stream", rows * C);
  plan.add(at_.norm, "layernorm outputs", rows * C);
  plan.add(at_.mean, "layernorm means", rows);
  plan.add(at_.rstd, "layernorm deviations", rows);
  plan.add(at_.qkv, "queries, keys, values", rows * 3 * C);
  plan.add(at_.attention, "attention outputs", rows * C);
  plan.add(at_.branch, "branch", rows * C);
  plan.add(at_.wide, "MLP", rows * 4 * C);
  plan.add(at_.logits, "logits", batch * config.padded_vocabulary);
  memory_ = plan.allocate(machine_);
  plan_ = plan.items();
}

void gpt2_decoder::set_parameters(const std::vector<float>& values) {
  if (values.size() != static_cast<std::size_t>(layout_.count())) {
    throw std::invalid_argument("gpt2_decoder: wanted " + std::to_string(layout_.count()) +
                                " numbers, got " + std::to_string(values.size()));
  }
  machine_.upload(at_.parameters, values.data(), values.size() * sizeof(float));
  for (token_text& text : cached_) text.clear();
}

const float* gpt2_decoder::parameter_of(parameter p, std::int64_t layer) const {
  return at_.parameters + layout_[p].offset + layer * layout_[p].per_layer;
}

/// The tokens that the cache does not have, the last ones of all texts at the end. From now on the
/// cache counts as having them.
auto gpt2_decoder::new_rows(const std::vector<const token_text*>& texts) -> std::vector<row> {
  std::vector<row> rows;
  std::vector<row> last;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i] == nullptr) continue;
    const auto length = static_cast<std::int64_t>(texts[i]->size());
    const token_text seen(texts[i]->begin() + first_seen(length, context_), texts[i]->end());
    token_text& cached = cached_[i];
    const auto known = std::mismatch(seen.begin(), seen.end() - 1, cached.begin(), cached.end());
    for (auto token = known.first; token != seen.end(); ++token) {
      const auto position = static_cast<std::int32_t>(token - seen.begin());
      const row next{*token, {static_cast<std::int32_t>(i), position}};
      (token + 1 == seen.end() ? last : rows).push_back(next);
    }
    cached = seen;
  }
  rows.insert(rows.end(), last.begin(), last.end());
  return rows;
}

/// From the rows' tokens to the last layernorm's output, and to their keys and values in the cache.
void gpt2_decoder::run(const row* rows, std::int64_t count) {
  constexpr float epsilon = 1e-5f;
  const std::int64_t C = config_.channels;
  std::vector<std::int32_t> tokens;
  std::vector<llmc::cache_place> places;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(rows[i].token);
    places.push_back(rows[i].place);
  }
  machine_.upload(at_.tokens, tokens.data(), tokens.size() * sizeof tokens[0]);
  machine_.upload(at_.places, places.data(), places.size() * sizeof places[0]);
  computed_tokens_ += count;

  const llmc::row_shape stream{count, C};
  const llmc::cached_attention_shape attention{count, batch_, context_, config_.heads,
                                               config_.head_size()};
  const std::int64_t cache_of_layer = batch_ * context_ * C;
  const auto through_linear = [&](float* out, const float* inp, parameter weight, parameter bias,
                                  std::int64_t layer, std::int64_t channels,
                                  std::int64_t out_channels) {
    layers_.run(calls::matmul_few_rows_forward<float>{out,
                                                      inp,
                                                      parameter_of(weight, layer),
                                                      parameter_of(bias, layer),
                                                      {count, channels, out_channels}});
  };
  const auto add_and_normalise = [&](parameter weight, parameter bias, std::int64_t layer) {
    machine_.run(calls::residual_layernorm_forward<float>{
        at_.residual, at_.norm, at_.mean, at_.rstd, at_.residual, at_.branch,
        parameter_of(weight, layer), parameter_of(bias, layer), stream, epsilon});
  };

  layers_.run(
      calls::placed_encoder_forward<float>{at_.residual,
                                           at_.tokens,
                                           at_.places,
                                           parameter_of(parameter::wte),
                                           parameter_of(parameter::wpe),
                                           {count, config_.max_sequence, C, config_.vocabulary}});
  machine_.run(calls::layernorm_forward<float>{at_.norm, at_.mean, at_.rstd, at_.residual,
                                               parameter_of(parameter::ln1w),
                                               parameter_of(parameter::ln1b), stream, epsilon});
  for (std::int64_t l = 0; l < config_.layers; ++l) {
    through_linear(at_.qkv, at_.norm, parameter::qkvw, parameter::qkvb, l, C, 3 * C);
    layers_.run(calls::cached_attention_forward<float>{at_.attention, at_.keys + l * cache_of_layer,
                                                       at_.values + l * cache_of_layer, at_.qkv,
                                                       at_.places, attention});
    through_linear(at_.branch, at_.attention, parameter::attprojw, parameter::attprojb, l, C, C);
    add_and_normalise(parameter::ln2w, parameter::ln2b, l);
    through_linear(at_.wide, at_.norm, parameter::fcw, parameter::fcb, l, C, 4 * C);
    machine_.run(calls::gelu_forward<float>{at_.wide, at_.wide, count * 4 * C});
    through_linear(at_.branch, at_.wide, parameter::fcprojw, parameter::fcprojb, l, 4 * C, C);
    if (l + 1 < config_.layers) {
      add_and_normalise(parameter::ln1w, parameter::ln1b, l + 1);
    } else {
      add_and_normalise(parameter::lnfw, parameter::lnfb, 0);
    }
  }
}

/// The logits of `rows` rows of the pass before, from `first` on: one for each text.
std::vector<std::vector<float>> gpt2_decoder::classify(const std::vector<const token_text*>& texts,
                                                       std::int64_t first, std::int64_t rows) {
  layers_.run(
      calls::matmul_few_rows_forward<float>{at_.logits,
                                            at_.norm + first * config_.channels,
                                            parameter_of(parameter::wte),
                                            nullptr,
                                            {rows, config_.channels, config_.padded_vocabulary}});
  std::vector<std::vector<float>> result(texts.size());
  const float* from = at_.logits;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i] == nullptr) continue;
    result[i].resize(static_cast<std::size_t>(config_.vocabulary));
    machine_.download(result[i].data(), from, result[i].size() * sizeof(float));
    from += config_.padded_vocabulary;
  }
  return result;
}

std::vector<std::vector<float>> gpt2_decoder::logits(const std::vector<const token_text*>& texts) {
  require_extent("texts", static_cast<std::int64_t>(texts.size()), 1, batch_);
  const std::int64_t wanted = std::count_if(texts.begin(), texts.end(),
                                            [](const token_text* text) { return text != nullptr; });
  const std::vector<row> rows = new_rows(texts);
  const auto count = static_cast<std::int64_t>(rows.size());
  std::int64_t done = 0;
  // All rows whose logits are wanted belong to the last pass.
  for (; count - done > most_rows_; done += std::min(most_rows_, count - wanted - done)) {
    run(rows.data() + done, std::min(most_rows_, count - wanted - done));
  }
  run(rows.data() + done, count - done);
  return classify(texts, count - done - wanted, wanted);
}

}  // namespace gpt2_trainer
