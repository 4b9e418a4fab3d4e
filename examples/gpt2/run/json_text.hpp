/// @file
/// Texts of any bytes in JSON, which itself is UTF-8. Names of files may hold bytes that are not.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt2_trainer {

/// A string; of a text that is not UTF-8, {"hex": "its bytes in hexadecimal digits"}.
nlohmann::json json_of_text(const std::string& text);

/// The text again. An input_error if the value is neither of both.
std::string text_of_json(const nlohmann::json& value);

}  // namespace gpt2_trainer
