#include "gpt2/hugging_face/names.hpp"

#include "gpt2/model/parameters.hpp"

namespace gpt2_trainer {

std::vector<named_parameter> named_parameters(const gpt2_config& config) {
  const parameter_layout layout(config);
  const std::int64_t C = config.channels;
  std::vector<named_parameter> all;
  std::string before;
  std::int64_t layer = 0;
  const auto add = [&](const std::string& name, parameter which, std::vector<std::int64_t> shape,
                       bool transposed = false) {
    const parameter_tensor& tensor = layout[which];
    all.push_back(
        {before + name, std::move(shape), tensor.offset + layer * tensor.per_layer, transposed});
  };
  const auto linear = [&](const std::string& name, parameter weight, parameter bias,
                          std::int64_t in, std::int64_t out) {
    add(name + ".weight", weight, {in, out}, true);
    add(name + ".bias", bias, {out});
  };
  const auto layernorm = [&](const std::string& name, parameter weight, parameter bias) {
    add(name + ".weight", weight, {C});
    add(name + ".bias", bias, {C});
  };

  add("wte.weight", parameter::wte, {config.vocabulary, C});
  add("wpe.weight", parameter::wpe, {config.max_sequence, C});
  for (; layer < config.layers; ++layer) {
    before = "h." + std::to_string(layer) + ".";
    layernorm("ln_1", parameter::ln1w, parameter::ln1b);
    linear("attn.c_attn", parameter::qkvw, parameter::qkvb, C, 3 * C);
    linear("attn.c_proj", parameter::attprojw, parameter::attprojb, C, C);
    layernorm("ln_2", parameter::ln2w, parameter::ln2b);
    linear("mlp.c_fc", parameter::fcw, parameter::fcb, C, 4 * C);
    linear("mlp.c_proj", parameter::fcprojw, parameter::fcprojb, 4 * C, C);
  }
  before.clear();
  layer = 0;
  layernorm("ln_f", parameter::lnfw, parameter::lnfb);
  return all;
}

bool is_mask(std::string_view name) {
  const auto ends_in = [&](std::string_view end) {
    return name.size() > end.size() && name.substr(name.size() - end.size()) == end;
  };
  return name.substr(0, 2) == "h." && (ends_in(".attn.bias") || ends_in(".attn.masked_bias"));
}

}  // namespace gpt2_trainer
