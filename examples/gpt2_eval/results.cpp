#include "gpt2_eval/results.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "gpt2/run/json_text.hpp"
#include "gpt2/run/measurement_json.hpp"
#include "gpt2/run/report.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string row(const std::string& name, const std::string& value) {
  constexpr std::size_t width = 17;
  return name + std::string(width - std::min(width - 1, name.size()), ' ') + value + "\n";
}

const char* title_of(choice_rule rule) {
  switch (rule) {
    case choice_rule::loss_per_token: return "by loss per token";
    case choice_rule::loss: return "by loss";
    case choice_rule::loss_per_byte: return "by loss per byte";
  }
  return "unknown";
}

std::string text_of(const data_results& r) {
  const prediction& p = r.found;
  std::string text = row("data", r.data + ": " + grouped(p.tokens) + " tokens" +
                                     (p.bytes ? " of " + grouped(*p.bytes) + " bytes" : ""));
  text += row("context", format("%lld tokens, stride %lld", static_cast<long long>(r.sequence),
                                static_cast<long long>(r.stride)));
  text += row("loss", format("%.6f per token", p.mean_loss()));
  text += row("perplexity", format("%.4f", p.perplexity()));
  if (const auto bits = p.bits_per_byte()) text += row("bits per byte", format("%.6f", *bits));
  return text;
}

std::string counted(std::int64_t count, const std::string& one, const std::string& several) {
  return grouped(count) + (count == 1 ? one : several);
}

std::string text_of(const choice_results& r) {
  const auto examples = static_cast<std::int64_t>(r.judged.size());
  std::string text = row("choices", r.file + ": " + counted(examples, " example", " examples"));
  if (r.cut > 0) {
    const std::string room = " did not fit into " + grouped(r.sequence) + " tokens and ";
    text += row("", counted(r.cut, " context" + room + "was", " contexts" + room + "were") +
                        " cut from the left");
  }
  for (const choice_rule rule : choice_rules) {
    const std::optional<accuracy> found = accuracy_by(rule, r.judged);
    if (!found) continue;
    const std::optional<double> error = found->standard_error();
    text += row(title_of(rule), format("%.4f", found->share()) +
                                    (error ? format(" +- %.4f", *error) : "") +
                                    (rule == choice_rule::loss_per_token ? " (llm.c's rule)" : ""));
  }
  return text;
}

template <class Value>
json json_of(const std::optional<Value>& value) {
  return value ? json(*value) : json();
}

json json_of(const data_results& r) {
  return {{"path", json_of_text(r.data)},
          {"documents", r.documents},
          {"sequence", r.sequence},
          {"stride", r.stride},
          {"tokens", r.found.tokens},
          {"bytes", json_of(r.found.bytes)},
          {"loss", r.found.mean_loss()},
          {"perplexity", r.found.perplexity()},
          {"bits_per_byte", json_of(r.found.bits_per_byte())},
          {"seconds", r.seconds}};
}

json json_of(const judged_example& each) {
  json judged{{"label", each.example->label}};
  for (const choice_rule rule : choice_rules) {
    json judgements = json::array();
    for (std::size_t i = 0; i < each.losses.size(); ++i) {
      judgements.push_back(json_of(each.judgement(rule, i)));
    }
    judged[to_string(rule)] = {{"chosen", json_of(each.chosen(rule))},
                               {"completions", std::move(judgements)}};
  }
  return judged;
}

json json_of(const choice_results& r) {
  json values{{"path", json_of_text(r.file)},
              {"examples", r.judged.size()},
              {"cut", r.cut},
              {"sequence", r.sequence},
              {"seconds", r.seconds}};
  for (const choice_rule rule : choice_rules) {
    const std::optional<accuracy> found = accuracy_by(rule, r.judged);
    values["accuracy"][to_string(rule)] =
        found ? json{{"correct", found->correct},
                     {"share", found->share()},
                     {"standard_error", json_of(found->standard_error())}}
              : json();
  }
  for (const judged_example& each : r.judged) values["judged"].push_back(json_of(each));
  return values;
}

}  // namespace

bool evaluation_results::are_finite() const {
  double sum = data ? data->found.loss : 0;
  if (choices) {
    for (const judged_example& each : choices->judged) {
      sum = std::accumulate(each.losses.begin(), each.losses.end(), sum);
    }
  }
  return std::isfinite(sum);
}

std::string text_of(const evaluation_results& r) {
  return row("model", r.model + ": " + r.kind) + row("machine", r.machine) +
         (r.data ? text_of(*r.data) : "") + (r.choices ? text_of(*r.choices) : "");
}

std::string json_of(const evaluation_results& r) {
  return file_text(evaluation_schema, {{"model", json_of_text(r.model)},
                                       {"kind", r.kind},
                                       {"extents", model_json(r.config)},
                                       {"machine", r.machine},
                                       {"data", r.data ? json_of(*r.data) : json()},
                                       {"hellaswag", r.choices ? json_of(*r.choices) : json()}});
}

}  // namespace gpt2_trainer
