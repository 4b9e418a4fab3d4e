/// @file
/// Numbers that people write, in options and in saved options.
#pragma once

#include <limits>
#include <string>

namespace gpt2_trainer {

template <class Number>
struct number_range {
  Number least;
  Number most = std::numeric_limits<Number>::max();
};

/// The number that this text is in base 10, whatever the locale: digits, a sign if it is -, and for
/// float and double a point and an exponent. An input_error says what is wanted if the text is
/// anything else, lies outside the range, or is a number that the type cannot hold: 1e-50 as a
/// float would be 0. Instantiated for std::int64_t, std::uint64_t, float and double.
template <class Number>
Number parse_number(const std::string& text, number_range<Number> range);

/// The number in the form that people type.
template <class Number>
std::string number_text(Number value);

/// The number with the fewest digits that parse_number makes this value of: 0.1 of 0.1f.
double as_typed(float value);

}  // namespace gpt2_trainer
