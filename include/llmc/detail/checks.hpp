/// @file
/// Checks of arguments on the host. Each throws llmc::invalid_argument with the text "function:
/// argument must ..., got ...".
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include <llmc/error.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN
namespace checks {

[[noreturn]] inline void reject(const char* function, const std::string& sentence) {
  throw invalid_argument(std::string(function) + ": " + sentence);
}

inline void require_at_least(const char* function, const char* argument, std::int64_t value,
                             std::int64_t least) {
  if (value < least) {
    reject(function, std::string(argument) + " must be at least " + std::to_string(least) +
                         ", got " + std::to_string(value));
  }
}

inline void require_pointer(const char* function, const char* argument, const void* pointer) {
  if (pointer == nullptr) reject(function, std::string(argument) + " must not be null");
}

inline void require_finite_at_least(const char* function, const char* argument, double value,
                                    double least) {
  if (!(std::isfinite(value) && value >= least)) {
    reject(function, std::string(argument) + " must be finite and at least " +
                         std::to_string(least) + ", got " + std::to_string(value));
  }
}

/// Rows may be 0 (nothing to do), channels may not; returns the number of elements.
inline std::int64_t require_shape(const char* function, row_shape shape) {
  require_at_least(function, "rows", shape.rows, 0);
  require_at_least(function, "channels", shape.channels, 1);
  return product(function, sizeof(float), shape.rows, shape.channels) /
         static_cast<std::int64_t>(sizeof(float));
}

}  // namespace checks
LLMC_TYPES_END
