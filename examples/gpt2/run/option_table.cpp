#include "gpt2/run/option_table.hpp"

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace gpt2_trainer {
namespace {

/// Numbers in the form that people type.
template <class Number>
std::string shown(Number value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

template <class Range>
[[noreturn]] void reject(const char* kind, Range range, bool open, const std::string& text) {
  throw input_error(std::string("must be ") + kind +
                    (open ? " at least " + shown(range.least)
                          : " between " + shown(range.least) + " and " + shown(range.most)) +
                    ", got '" + text + "'");
}

/// Whether a number of the C library's was made of the whole text.
bool is_whole(const std::string& text, const char* end) {
  return !text.empty() && *end == '\0' && end == text.c_str() + text.size();
}

}  // namespace

std::int64_t parse_integer(const std::string& text, integer_range range) {
  char* end = nullptr;
  errno = 0;
  const std::int64_t value = std::strtoll(text.c_str(), &end, 10);
  const bool whole = is_whole(text, end) && errno == 0;
  if (whole && value >= range.least && value <= range.most) return value;
  reject("an integer", range, range.most == integer_range{0}.most, text);
}

double parse_number(const std::string& text, number_range range) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool whole = is_whole(text, end) && std::isfinite(value);
  if (whole && value >= range.least && value <= range.most) return value;
  reject("a number", range, std::isinf(range.most), text);
}

std::string absolute_path(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

std::string option_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace gpt2_trainer
