#include "gpt2/run/json_text.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

constexpr const char* digits = "0123456789abcdef";

bool is_utf8(const json& text) {
  try {
    text.dump();
    return true;
  } catch (const json::type_error&) {
    return false;
  }
}

bool is_hexadecimal(const json& value) {
  if (!value.is_string()) return false;
  const std::string& text = value.get_ref<const std::string&>();
  return text.size() % 2 == 0 && text.find_first_not_of(digits) == std::string::npos;
}

}  // namespace

json json_of_text(const std::string& text) {
  if (is_utf8(text)) return text;
  std::string hex;
  for (const char byte : text) {
    hex += digits[static_cast<unsigned char>(byte) / 16];
    hex += digits[static_cast<unsigned char>(byte) % 16];
  }
  return {{"hex", hex}};
}

std::string text_of_json(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  const auto hex = value.is_object() ? value.find("hex") : value.end();
  if (hex == value.end() || !is_hexadecimal(*hex)) {
    throw input_error(std::string("must be a text, or its bytes as {\"hex\": ...}, got ") +
                      value.type_name());
  }
  const std::string& bytes = hex->get_ref<const std::string&>();
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += 2) {
    unsigned char byte = 0;
    std::from_chars(bytes.data() + at, bytes.data() + at + 2, byte, 16);
    text += static_cast<char>(byte);
  }
  return text;
}

}  // namespace gpt2_trainer
