#include <array>
#include <nlohmann/json.hpp>

#include "gpt2/input_error.hpp"
#include "gpt2/run/choice.hpp"
#include "options.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

/// Calls visit(name, member) for the options that a resumed run must share.
template <class Options, class Visit>
void visit_lasting(Options& o, Visit visit) {
  visit("val-fraction", o.val_fraction);
  visit("order", o.order);
  visit("vocabulary", o.vocabulary);
  visit("init", o.init);
  visit("layers", o.layers);
  visit("heads", o.heads);
  visit("channels", o.channels);
  visit("context", o.context);
  visit("checkpoint", o.checkpoint);
  visit("batch", o.batch);
  visit("sequence", o.sequence);
  visit("total-batch", o.total_batch);
  visit("seed", o.seed);
}

/// And for those that it may change.
template <class Options, class Visit>
void visit_changeable(Options& o, Visit visit) {
  visit("data", o.data);
  visit("val", o.val);
  visit("steps", o.steps);
  visit("lr", o.lr);
  visit("min-lr", o.min_lr);
  visit("warmup", o.warmup);
  visit("schedule", o.schedule);
  visit("weight-decay", o.weight_decay);
  visit("beta1", o.beta1);
  visit("beta2", o.beta2);
  visit("clip", o.clip);
  visit("val-every", o.val_every);
  visit("val-batches", o.val_batches);
  visit("sample-every", o.sample_every);
  visit("sample-length", o.sample_length);
  visit("prompt", o.prompt);
  visit("temperature", o.temperature);
  visit("top-k", o.top_k);
  visit("out", o.out);
  visit("checkpoint-every", o.checkpoint_every);
  visit("log", o.log);
  visit("backend", o.backend);
  visit("precision", o.precision);
  visit("recompute", o.recompute);
  visit("plans", o.plans);
}

constexpr const auto& choices_of(token_order) {
  return token_orders;
}
constexpr const auto& choices_of(schedule_kind) {
  return schedule_kinds;
}
constexpr const auto& choices_of(backend_choice) {
  return backend_choices;
}
constexpr const auto& choices_of(llmc::precision) {
  return llmc::precisions;
}
constexpr const auto& choices_of(recompute_choice) {
  return recompute_choices;
}

template <class Value>
json write(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return to_string(value);
  } else {
    return value;
  }
}

template <class Value>
json write(const std::optional<Value>& value) {
  return value ? json(*value) : json();
}

template <class Value>
void read(const json& from, Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    value = parse_choice(choices_of(value), from.get<std::string>());
  } else {
    from.get_to(value);
  }
}

template <class Value>
void read(const json& from, std::optional<Value>& value) {
  if (!from.is_null()) value = from.get<Value>();
}

template <class Visit>
json collect(const run_options& options, Visit visit_options) {
  json result = json::object();
  visit_options(options, [&](const char* name, const auto& value) { result[name] = write(value); });
  return result;
}

json lasting(const run_options& options) {
  return collect(options, [](auto& o, auto visit) { visit_lasting(o, visit); });
}

/// A value as the command line shows it.
std::string shown(const json& value) {
  return value.is_string() ? "'" + value.get<std::string>() + "'" : value.dump();
}

}  // namespace

std::string to_json(const run_options& options) {
  json result = collect(options, [](auto& o, auto visit) { visit_changeable(o, visit); });
  result.update(lasting(options));
  return result.dump(-1, ' ', false, json::error_handler_t::replace);
}

run_options options_from_json(const std::string& text) {
  run_options options;
  try {
    const json from = json::parse(text);
    // Runs of an older gpt2_train lack the newer options.
    const auto visit = [&](const char* name, auto& value) {
      if (from.contains(name)) read(from.at(name), value);
    };
    visit_lasting(options, visit);
    visit_changeable(options, visit);
  } catch (const json::exception& error) {
    throw input_error(std::string("the saved options must be those of gpt2_train, got ") +
                      error.what());
  }
  return options;
}

void require_resumable(const run_options& saved, const run_options& now) {
  const json before = lasting(saved);
  const json after = lasting(now);
  for (const auto& [name, value] : before.items()) {
    if (after.at(name) == value) continue;
    throw input_error("--" + name + " must be " + shown(value) +
                      " as in the run that is resumed, got " + shown(after.at(name)));
  }
}

}  // namespace gpt2_trainer
