#include "gpt2/run/numbers.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <locale>
#include <sstream>
#include <system_error>
#include <type_traits>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

template <class Number>
std::string wanted(number_range<Number> range, bool cannot_be_held) {
  using limits = std::numeric_limits<Number>;
  std::string text = std::is_integral_v<Number> ? "an integer" : "a number";
  if (range.most < limits::max() || (std::is_integral_v<Number> && cannot_be_held)) {
    text += " between " + number_text(range.least) + " and " + number_text(range.most);
  } else {
    text += " at least " + number_text(range.least);
  }
  if (!std::is_integral_v<Number> && cannot_be_held) {
    text += ", and 0 or of a size between " + number_text(limits::denorm_min()) + " and " +
            number_text(limits::max());
  }
  return text;
}

}  // namespace

template <class Number>
std::string number_text(Number value) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << value;
  return text.str();
}

template std::string number_text(std::int64_t);
template std::string number_text(float);

template <class Number>
Number parse_number(const std::string& text, number_range<Number> range) {
  const char* const end = text.data() + text.size();
  Number value{};
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool is_held = error == std::errc() && stop == end;
  if (is_held && value >= range.least && value <= range.most) return value;
  const bool cannot_be_held = error == std::errc::result_out_of_range && stop == end;
  throw input_error("must be " + wanted(range, cannot_be_held) + ", got '" + text + "'");
}

template std::int64_t parse_number(const std::string&, number_range<std::int64_t>);
template std::uint64_t parse_number(const std::string&, number_range<std::uint64_t>);
template float parse_number(const std::string&, number_range<float>);
template double parse_number(const std::string&, number_range<double>);

double as_typed(float value) {
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  double shortest = value;
  std::from_chars(digits.data(), end, shortest);
  return shortest;
}

}  // namespace gpt2_trainer
