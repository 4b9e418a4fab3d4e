/// @file
/// What was found out about a model, for people and for programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpt2/evaluation/choices.hpp"
#include "gpt2/evaluation/perplexity.hpp"
#include "gpt2/model/config.hpp"
#include "gpt2/run/json_file.hpp"

namespace gpt2_trainer {

inline constexpr json_schema evaluation_schema{"llmc.gpt2_eval", 1};

struct data_results {
  std::string data;
  std::int64_t documents;  ///< or shards
  std::int64_t sequence;
  std::int64_t stride;
  prediction found;
  double seconds;
};

struct choice_results {
  std::string file;
  std::vector<choice_example> examples;
  std::vector<judged_example> judged;
  std::int64_t cut;
  std::int64_t sequence;
  double seconds;
};

struct evaluation_results {
  std::string model;
  std::string kind;  ///< of the model's file or folder
  gpt2_config config;
  std::string machine;
  std::optional<data_results> data;
  std::optional<choice_results> choices;

  /// Whether all losses are numbers.
  bool are_finite() const;
};

/// A short table.
std::string text_of(const evaluation_results& results);
/// A file of the schema.
std::string json_of(const evaluation_results& results);

}  // namespace gpt2_trainer
