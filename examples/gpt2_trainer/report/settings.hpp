/// @file
/// What a run says of itself before its first step.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "gpt2/run/report.hpp"
#include "gpt2_trainer/setup.hpp"

namespace gpt2_trainer {

/// For people. `windows` is how many sequences an epoch has.
table settings_table(const run_setup& setup, std::int64_t windows);
/// For programs: the members of the log's event "settings".
nlohmann::json settings_json(const run_setup& setup, std::int64_t windows);

/// What a resumed run goes on from and what changes with it: rows, and the members of the log's
/// event "resumed".
table resumption_table(const run_setup& setup);
nlohmann::json resumption_json(const run_setup& setup);

}  // namespace gpt2_trainer
