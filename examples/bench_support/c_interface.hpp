/// @file
/// What the shared libraries that Python scripts call have in common: names and errors for C.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

#include <llmc/types.hpp>

namespace bench_support {

inline llmc::precision precision_named(const std::string& name) {
  using llmc::precision;
  for (const auto p : {precision::ieee, precision::tf32, precision::tf32x3}) {
    if (name == to_string(p)) return p;
  }
  throw std::invalid_argument("precision must be ieee, tf32 or tf32x3, got " + name);
}

/// Nothing, or what went wrong; the text lasts until the next call.
template <class Call>
const char* text_of_error(Call call) {
  static std::string text;
  try {
    call();
    return nullptr;
  } catch (const std::exception& e) {
    text = e.what();
    return text.c_str();
  }
}

}  // namespace bench_support
