#include "gpt2/evaluation/choices.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

/// Tokens of the context that have no room before this completion.
std::int64_t tokens_to_cut(const choice_example& example, const completion& each,
                           std::int64_t sequence) {
  const auto inputs = static_cast<std::int64_t>(example.context.size() + each.tokens.size()) - 1;
  return std::max<std::int64_t>(inputs - sequence, 0);
}

}  // namespace

std::optional<double> judged_example::judgement(choice_rule rule, std::size_t at) const {
  const completion& each = example->completions[at];
  switch (rule) {
    case choice_rule::loss_per_token: return losses[at] / static_cast<double>(each.tokens.size());
    case choice_rule::loss: return losses[at];
    case choice_rule::loss_per_byte:
      if (each.bytes.value_or(0) == 0) return std::nullopt;
      return losses[at] / static_cast<double>(*each.bytes);
  }
  return std::nullopt;
}

std::optional<std::size_t> judged_example::chosen(choice_rule rule) const {
  std::size_t best = 0;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const std::optional<double> judged = judgement(rule, i);
    if (!judged) return std::nullopt;
    if (*judged < *judgement(rule, best)) best = i;
  }
  return best;
}

std::optional<double> accuracy::standard_error() const {
  if (examples < 2) return std::nullopt;
  return std::sqrt(share() * (1 - share()) / static_cast<double>(examples - 1));
}

std::optional<accuracy> accuracy_by(choice_rule rule, const std::vector<judged_example>& examples) {
  accuracy result{0, 0};
  for (const judged_example& each : examples) {
    const std::optional<std::size_t> chosen = each.chosen(rule);
    if (!chosen) return std::nullopt;
    ++result.examples;
    if (static_cast<std::int64_t>(*chosen) == each.example->label) ++result.correct;
  }
  return result;
}

choice_rows::choice_rows(const std::vector<choice_example>& examples, std::int64_t sequence,
                         const std::string& name)
    : examples_(examples), sequence_(sequence) {
  for (std::size_t i = 0; i < examples.size(); ++i) {
    bool is_cut = false;
    for (const completion& each : examples[i].completions) {
      const auto length = static_cast<std::int64_t>(each.tokens.size());
      if (length > sequence) {
        throw input_error(name + ": example " + std::to_string(i) +
                          ": completions must be of at most " + std::to_string(sequence) +
                          " tokens, as many as the model sees, got " + std::to_string(length));
      }
      is_cut = is_cut || tokens_to_cut(examples[i], each, sequence) > 0;
      ++rows_;
    }
    if (is_cut) ++cut_;
  }
}

std::optional<scored_row> choice_rows::next() {
  if (example_ == examples_.size()) return std::nullopt;
  const choice_example& example = examples_[example_];
  const completion& each = example.completions[completion_];
  scored_row row{
      {example.context.begin() + tokens_to_cut(example, each, sequence_), example.context.end()},
      0};
  row.first = static_cast<std::int64_t>(row.tokens.size());
  row.tokens.insert(row.tokens.end(), each.tokens.begin(), each.tokens.end());
  if (++completion_ == example.completions.size()) {
    completion_ = 0;
    ++example_;
  }
  return row;
}

std::vector<judged_example> judge(gpt2<float>& model, std::int64_t batch,
                                  const std::vector<choice_example>& examples, choice_rows rows,
                                  const std::function<void(std::int64_t)>& progress) {
  std::vector<judged_example> judged;
  std::int64_t done = 0;
  score_rows<float>(
      model, batch, [&] { return rows.next(); },
      [&](const scored_row& row, const float* losses) {
        if (judged.empty() ||
            judged.back().losses.size() == judged.back().example->completions.size())
          judged.push_back({&examples[judged.size()], {}});
        judged.back().losses.push_back(std::accumulate(losses, losses + row.scored(), 0.0));
        progress(++done);
      });
  return judged;
}

}  // namespace gpt2_trainer
