/// @file
/// Which kernel does each matrix product of a run. Known choices are read, others are found by
/// timing, and all are kept, so that a later run has the same bits.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "gpt2/files/checkpoint.hpp"
#include "gpt2/machine/backend.hpp"
#include "options.hpp"

namespace gpt2_trainer {

/// The file that --plans names, or product_plans.txt beside the checkpoints; empty where there is
/// neither.
std::filesystem::path plan_file(const run_options& options);

/// Loads the plans of the run that is resumed, or those in the file if it exists. An input_error if
/// they are not for this machine.
void load_plans(product_tuner& products, const run_options& options,
                const std::optional<training_state>& resumed);

/// Times those products of `step` that have no plan, and writes all plans to the file if there are
/// new ones. Returns a sentence that says what was done; empty if nothing was.
std::string tune_products(product_tuner& products, const run_options& options,
                          const std::function<void()>& step);

}  // namespace gpt2_trainer
