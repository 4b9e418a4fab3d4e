/// @file
/// The two things that gpt2_generate does.
#pragma once

#include <string>
#include <vector>

#include "loading.hpp"

namespace gpt2_trainer {

/// Continues the prompts and prints what the options want of it.
void print_texts(const generate_options& options, const loaded_model& model,
                 const std::vector<std::string>& prompts);

/// Continues the beginning, maybe empty, after each line of standard input.
void converse(const generate_options& options, const loaded_model& model,
              const std::string& beginning);

}  // namespace gpt2_trainer
