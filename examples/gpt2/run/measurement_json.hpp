/// @file
/// What the JSON files of measurements have in common.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gpt2/model/config.hpp"
#include "gpt2/run/json_file.hpp"
#include "gpt2/run/quartiles.hpp"

namespace gpt2_trainer {

inline nlohmann::json model_json(const gpt2_config& c) {
  return {{"layers", c.layers},
          {"heads", c.heads},
          {"channels", c.channels},
          {"context", c.max_sequence},
          {"vocabulary", c.vocabulary}};
}

/// Of at least one time.
inline nlohmann::json milliseconds_json(const std::vector<double>& seconds) {
  const quartiles q = quartiles_of(seconds);
  nlohmann::json all = nlohmann::json::array();
  for (const double value : seconds) all.push_back(1e3 * value);
  return {{"median", 1e3 * q.median},        {"minimum", 1e3 * q.minimum},
          {"lower_quartile", 1e3 * q.lower}, {"upper_quartile", 1e3 * q.upper},
          {"maximum", 1e3 * q.maximum},      {"all", all}};
}

inline constexpr json_schema benchmark_schema{"llmc.gpt2_train.benchmark", 1};
inline constexpr json_schema profile_schema{"llmc.gpt2_train.profile", 1};

/// The text of a file of that schema.
inline std::string file_text(json_schema schema, nlohmann::json members) {
  members.update(json_of_schema(schema));
  return members.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace gpt2_trainer
