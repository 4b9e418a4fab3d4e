/// @file
/// Checks of arguments on the host. Each throws llmc::invalid_argument with the text "function:
/// argument must ..., got ...".
#pragma once

#include <cmath>
#include <cstddef>
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

inline void require_aligned(const char* function, const char* argument, const void* pointer,
                            std::size_t alignment) {
  const std::size_t excess = reinterpret_cast<std::uintptr_t>(pointer) % alignment;
  if (excess != 0) {
    reject(function, std::string(argument) + " must be aligned to " + std::to_string(alignment) +
                         " bytes, got an address " + std::to_string(excess) + " bytes past that");
  }
}

/// `scratch` must not be null, must have at least `bytes` bytes and must be aligned to 16. Where no
/// bytes are needed, anything will do.
inline void require_workspace(const char* function, workspace scratch, std::size_t bytes) {
  if (bytes == 0) return;
  if (scratch.data == nullptr) {
    reject(function, "workspace must have " + std::to_string(bytes) + " bytes, got null");
  }
  if (scratch.bytes < bytes) {
    reject(function, "workspace must have at least " + std::to_string(bytes) + " bytes, got " +
                         std::to_string(scratch.bytes));
  }
  constexpr std::size_t alignment = 16;
  require_aligned(function, "workspace", scratch.data, alignment);
}

inline void require_not_nan(const char* function, const char* argument, double value) {
  if (std::isnan(value)) reject(function, std::string(argument) + " must be a number, got NaN");
}

/// The number of elements of a flat array of floats; 0 is allowed.
inline void require_count(const char* function, std::int64_t count) {
  require_at_least(function, "count", count, 0);
  bytes<float>(function, count);
}

/// The share of a running mean that is kept at each step.
inline void require_decay_rate(const char* function, const char* argument, double value) {
  if (!(value >= 0 && value < 1)) {
    reject(function, std::string(argument) + " must be at least 0 and less than 1, got " +
                         std::to_string(value));
  }
}

inline void require_parameters(const char* function, adamw_parameters parameters) {
  require_decay_rate(function, "beta1", parameters.beta1);
  require_decay_rate(function, "beta2", parameters.beta2);
  require_finite_at_least(function, "epsilon", parameters.epsilon, 0);
  require_finite_at_least(function, "weight_decay", parameters.weight_decay, 0);
}

/// Segments may be empty, and there may be none; returns the number of parameters in all of them.
inline std::int64_t require_segments(const char* function, const adamw_segment* segments,
                                     std::int64_t segment_count) {
  require_at_least(function, "segment_count", segment_count, 0);
  if (segment_count > 0) require_pointer(function, "segments", segments);
  std::int64_t count = 0;
  for (std::int64_t s = 0; s < segment_count; ++s) {
    require_count(function, segments[s].count);
    count += segments[s].count;
    require_count(function, count);
  }
  return count;
}

/// Rows may be 0 (nothing to do), channels may not; returns the number of elements.
inline std::int64_t require_shape(const char* function, row_shape shape) {
  require_at_least(function, "rows", shape.rows, 0);
  require_at_least(function, "channels", shape.channels, 1);
  return checked_product(function, sizeof(float), shape.rows, shape.channels) /
         static_cast<std::int64_t>(sizeof(float));
}

/// A linear layer may have no rows and no input channels (then the output is the bias).
inline void require_shape(const char* function, matmul_shape shape) {
  require_at_least(function, "rows", shape.rows, 0);
  require_at_least(function, "channels", shape.channels, 0);
  require_at_least(function, "out_channels", shape.out_channels, 1);
  bytes<float>(function, shape.rows, shape.channels);
  bytes<float>(function, shape.rows, shape.out_channels);
  bytes<float>(function, shape.out_channels, shape.channels);
}

/// Batch and sequence may be 0, heads and head size may not.
inline void require_shape(const char* function, attention_shape shape) {
  require_at_least(function, "batch", shape.batch, 0);
  require_at_least(function, "sequence", shape.sequence, 0);
  require_at_least(function, "heads", shape.heads, 1);
  require_at_least(function, "head_size", shape.head_size, 1);
  bytes<float>(function, 3, shape.batch, shape.sequence, shape.heads, shape.head_size);
}

/// Batch and sequence may be 0, channels and vocabulary may not; returns the number of tokens.
inline std::int64_t require_shape(const char* function, encoder_shape shape) {
  require_at_least(function, "batch", shape.batch, 0);
  require_at_least(function, "sequence", shape.sequence, 0);
  require_at_least(function, "channels", shape.channels, 1);
  require_at_least(function, "vocabulary", shape.vocabulary, 1);
  bytes<float>(function, shape.vocabulary, shape.channels);
  bytes<float>(function, shape.sequence, shape.channels);
  bytes<float>(function, shape.batch, shape.sequence, shape.channels);
  return shape.batch * shape.sequence;
}

/// Rows may be 0, the vocabulary may not, and the padding only adds columns.
inline void require_shape(const char* function, classifier_shape shape) {
  require_at_least(function, "rows", shape.rows, 0);
  require_at_least(function, "vocabulary", shape.vocabulary, 1);
  require_at_least(function, "padded_vocabulary", shape.padded_vocabulary, shape.vocabulary);
  bytes<float>(function, shape.rows, shape.padded_vocabulary);
}

}  // namespace checks
LLMC_TYPES_END
