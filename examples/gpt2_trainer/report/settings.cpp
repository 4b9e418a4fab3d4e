#include "gpt2_trainer/report/settings.hpp"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "gpt2/data/text.hpp"
#include "gpt2/model/parameters.hpp"
#include "gpt2/run/json_text.hpp"
#include "gpt2/run/measurement_json.hpp"
#include "gpt2/run/schedule.hpp"
#include "gpt2_trainer/report/sample.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

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

double epochs(const run_options& o, std::int64_t windows) {
  return static_cast<double>(*o.steps) * static_cast<double>(*o.total_batch / *o.sequence) /
         static_cast<double>(windows);
}

/// Of the first step after those that are done.
double next_learning_rate(const run_options& o, std::int64_t done) {
  return learning_rate(schedule_of(o), done + 1);
}

}  // namespace

table settings_table(const run_setup& setup, std::int64_t windows) {
  const run_options& o = setup.options;
  const token_source& data = *setup.data.training;
  const std::string kind = setup.start ? ", " + setup.start->kind : "";
  const std::string from = setup.model_source.empty() ? "" : ", from " + setup.model_source + kind;
  table rows{
      {"machine", setup.machine->description()},
      {"model", model_text(setup.config)},
      {"parameters", grouped(parameter_layout(setup.config).count()) + from},
      {"data", setup.data.description},
      {"training", grouped(data.tokens()) + " tokens, " + to_string(o.order)},
      {"validation", setup.data.validation ? grouped(setup.data.validation->tokens()) + " tokens"
                                           : std::string("none")},
      {"batch", batch_text(o)},
      {"steps", std::to_string(*o.steps) + ", " + number(epochs(o, windows)) + " epochs"},
      {"learning rate", number(*o.lr) + " to " + number(*o.min_lr) + ", " + to_string(o.schedule) +
                            " after " + std::to_string(*o.warmup) + " steps of warm-up"},
      {"AdamW", "betas " + number(o.beta1) + " and " + number(o.beta2) + ", weight decay " +
                    number(o.weight_decay) + ", clip " + (o.clip > 0 ? number(o.clip) : "off")},
      {"seed", std::to_string(o.seed)},
      {"checkpoints", *o.checkpoint_every > 0 ? o.out : "none"}};
  if (setup.config.vocabulary != byte_vocabulary && *o.sample_every > 0) {
    rows.emplace_back("samples", std::string("numbers of tokens: ") + no_tokenizer);
  }
  return rows;
}

json settings_json(const run_setup& setup, std::int64_t windows) {
  const token_source* const validation = setup.data.validation.get();
  return {
      {"machine", setup.machine->description()},
      {"extents", model_json(setup.config)},
      {"parameters", parameter_layout(setup.config).count()},
      {"parameters_from", setup.model_source.empty() ? json() : json_of_text(setup.model_source)},
      {"data", json_of_text(setup.data.description)},
      {"training_tokens", setup.data.training->tokens()},
      {"validation_tokens", validation == nullptr ? json() : json(validation->tokens())},
      {"epochs", epochs(setup.options, windows)},
      {"options", json_of_options(setup.options)}};
}

table resumption_table(const run_setup& setup) {
  const std::int64_t done = setup.state->step;
  table rows{{"resumed", "after step " + std::to_string(done)}};
  std::string changes;
  const json changed = changed_options(setup.before, setup.options);
  for (const auto& [name, change] : changed.items()) {
    changes += (changes.empty() ? "--" : ", --") + name + " from " + change.at("from").dump() +
               " to " + change.at("to").dump();
  }
  if (!changes.empty()) rows.emplace_back("changed", changes);

  const double until_now = next_learning_rate(setup.before, done);
  const double now = next_learning_rate(setup.options, done);
  constexpr double notable = 0.01;
  if (std::fabs(now - until_now) > notable * until_now) {
    rows.emplace_back("", "so the learning rate of step " + std::to_string(done + 1) + " is " +
                              number(now) + ", and would have been " + number(until_now));
  }
  return rows;
}

json resumption_json(const run_setup& setup) {
  const std::int64_t done = setup.state->step;
  return {{"step", done},
          {"state", json_of_text(setup.resumed.state.string())},
          {"changed", changed_options(setup.before, setup.options)},
          {"learning_rate", next_learning_rate(setup.options, done)},
          {"unchanged_learning_rate", next_learning_rate(setup.before, done)}};
}

}  // namespace gpt2_trainer
