/// @file
/// JSON that others wrote: what a lenient reader would pass over is refused.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "gpt2/files/file.hpp"

namespace gpt2_trainer {

/// The value that the text, which is from that file, is. An input_error if it is none, if an object
/// has a name twice (of which most readers keep one, without a word), or if it is nested so deep
/// that what handles it could run out of stack.
nlohmann::json parse_strictly(const input_file& from, std::string_view text);

/// What a value is, in a message: the beginning of its text.
std::string shown(const nlohmann::json& value);

}  // namespace gpt2_trainer
