/// @file
/// What embed.cmake makes of the repository's documentation and headers when the trainer is built.
#pragma once

#include <string_view>
#include <vector>

namespace gpt2_trainer {

/// The documents in the order of their names.
std::vector<std::string_view> embedded_documents();

}  // namespace gpt2_trainer
