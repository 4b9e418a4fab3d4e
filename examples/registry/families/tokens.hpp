/// @file
/// Tokens for the encoder.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include <llmc/types.hpp>

namespace llmc_registry {

/// Tokens as frequent as words are: the k-th about 1 / k as often as the first (Zipf's law).
inline std::vector<std::int32_t> random_tokens(llmc::encoder_shape s) {
  std::mt19937 engine(1);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(s.batch * s.sequence));
  for (std::int32_t& token : tokens) {
    const double uniform = static_cast<double>(engine()) / 4294967296.0;
    token = static_cast<std::int32_t>(std::pow(static_cast<double>(s.vocabulary), uniform)) - 1;
  }
  return tokens;
}

}  // namespace llmc_registry
