/// @file
/// Multiple choice, as in HellaSwag: which of several completions does a model find likeliest?
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpt2/evaluation/scoring.hpp"
#include "gpt2/evaluation/text_tokens.hpp"

namespace gpt2_trainer {

struct completion {
  std::vector<std::int32_t> tokens;
  /// Of its text, without the space that joins it to the context; where that is known.
  std::optional<std::int64_t> bytes;
};

struct choice_example {
  std::int64_t label;  ///< which completion is the right one
  std::vector<std::int32_t> context;
  std::vector<completion> completions;
};

/// The examples of a file: llm.c's, in tokens, or HellaSwag's own lines of JSON, in text. `text` is
/// needed for the latter, and tells how many bytes the former's tokens stand for. Every token is
/// below the vocabulary; what is wrong is an input_error.
std::vector<choice_example> read_choices(const std::filesystem::path& path, std::int64_t vocabulary,
                                         const std::optional<text_tokens>& text);

/// By what a completion is judged; the least is chosen, and of equals the first.
enum class choice_rule {
  loss_per_token,  ///< llm.c's
  loss,            ///< the likeliest as a whole
  loss_per_byte
};

constexpr const char* to_string(choice_rule rule) {
  switch (rule) {
    case choice_rule::loss_per_token: return "loss_per_token";
    case choice_rule::loss: return "loss";
    case choice_rule::loss_per_byte: return "loss_per_byte";
  }
  return "unknown";
}

inline constexpr std::array choice_rules{choice_rule::loss_per_token, choice_rule::loss,
                                         choice_rule::loss_per_byte};

/// The sum of the losses of each completion's tokens.
struct judged_example {
  const choice_example* example;
  std::vector<double> losses;

  /// What the rule judges by. Nothing if that is not known of this completion.
  std::optional<double> judgement(choice_rule rule, std::size_t completion) const;
  std::optional<std::size_t> chosen(choice_rule rule) const;
};

/// The share of examples in which the right completion was chosen.
struct accuracy {
  std::int64_t correct;
  std::int64_t examples;

  double share() const { return static_cast<double>(correct) / static_cast<double>(examples); }
  /// Of the share, for examples drawn at random.
  std::optional<double> standard_error() const;
};

/// Nothing if not all examples can be judged by this rule.
std::optional<accuracy> accuracy_by(choice_rule rule, const std::vector<judged_example>& examples);

/// The examples as rows: each context with each of its completions.
class choice_rows {
 public:
  /// A row has room for `sequence` inputs, so contexts are cut from the left where they are longer.
  /// A completion that is too long by itself is an input_error, which begins with the examples'
  /// name. The examples must outlive this.
  choice_rows(const std::vector<choice_example>& examples, std::int64_t sequence,
              const std::string& name);

  std::optional<scored_row> next();
  std::int64_t rows() const { return rows_; }
  /// Examples whose context is cut before at least one completion.
  std::int64_t cut() const { return cut_; }

 private:
  const std::vector<choice_example>& examples_;
  std::int64_t sequence_;
  std::int64_t rows_ = 0;
  std::int64_t cut_ = 0;
  std::size_t example_ = 0;
  std::size_t completion_ = 0;
};

/// `progress` is told after each row how many are done.
std::vector<judged_example> judge(gpt2<float>& model, std::int64_t batch,
                                  const std::vector<choice_example>& examples, choice_rows rows,
                                  const std::function<void(std::int64_t)>& progress);

}  // namespace gpt2_trainer
