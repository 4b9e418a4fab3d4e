#include "gpt2_trainer/report/settings.hpp"

#include <cstdio>
#include <string>

#include "gpt2/model/parameters.hpp"

namespace gpt2_trainer {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string model_text(const gpt2_config& c) {
  return std::to_string(c.layers) + " layers, " + std::to_string(c.heads) + " heads, " +
         std::to_string(c.channels) + " channels, context " + std::to_string(c.max_sequence) +
         ", vocabulary " + std::to_string(c.vocabulary);
}

std::string batch_text(const run_options& o) {
  const std::string sequences =
      std::to_string(*o.batch) + " sequences of " + std::to_string(*o.sequence);
  const std::int64_t parts = *o.total_batch / (*o.batch * *o.sequence);
  return grouped(*o.total_batch) + " tokens a step: " +
         (parts == 1 ? sequences : std::to_string(parts) + " times " + sequences);
}

std::string epochs_text(const run_options& o, std::int64_t windows) {
  const double read =
      static_cast<double>(*o.steps) * static_cast<double>(*o.total_batch / *o.sequence);
  return number(read / static_cast<double>(windows)) + " epochs";
}

}  // namespace

table settings_table(const run_setup& setup, std::int64_t windows) {
  const run_options& o = setup.options;
  const token_source& data = *setup.data.training;
  const std::string from = setup.model_source.empty() ? "" : ", from " + setup.model_source;
  table rows{
      {"machine", setup.machine->description()},
      {"model", model_text(setup.config)},
      {"parameters", grouped(parameter_layout(setup.config).count()) + from},
      {"data", setup.data.description},
      {"training", grouped(data.tokens()) + " tokens, " + to_string(o.order)},
      {"validation", setup.data.validation ? grouped(setup.data.validation->tokens()) + " tokens"
                                           : std::string("none")},
      {"batch", batch_text(o)},
      {"steps", std::to_string(*o.steps) + ", " + epochs_text(o, windows)},
      {"learning rate", number(*o.lr) + " to " + number(*o.min_lr) + ", " + to_string(o.schedule) +
                            " after " + std::to_string(*o.warmup) + " steps of warm-up"},
      {"AdamW", "betas " + number(o.beta1) + " and " + number(o.beta2) + ", weight decay " +
                    number(o.weight_decay) + ", clip " + (o.clip > 0 ? number(o.clip) : "off")},
      {"seed", std::to_string(o.seed)},
      {"checkpoints", *o.checkpoint_every > 0 ? o.out : "none"}};
  if (setup.state) rows.emplace_back("resumed", "after step " + std::to_string(setup.state->step));
  return rows;
}

}  // namespace gpt2_trainer
