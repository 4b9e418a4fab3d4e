/// @file
/// What somebody may have meant.
#pragma once

#include <string>
#include <vector>

namespace gpt2_trainer {

/// "; did you mean THIS or THAT?" of the words that are as typed but for a slip or the rest of the
/// word; empty if there is none.
std::string suggestion(const std::string& typed, const std::vector<std::string>& words);

}  // namespace gpt2_trainer
