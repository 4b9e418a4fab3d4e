/// @file
/// What texts begin with.
#pragma once

#include <string>
#include <vector>

#include "options.hpp"

namespace gpt2_trainer {

/// The prompts, in order: one, maybe empty, unless a file brings several. What cannot be read is an
/// input_error.
std::vector<std::string> read_prompts(const generate_options& options);

}  // namespace gpt2_trainer
