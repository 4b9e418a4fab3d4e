/// @file
/// Token and position embedding of new tokens at any places, on the CPU:
///
///     out[r] = wte[tokens[r]] + wpe[places[r].position]
#pragma once

#include <algorithm>
#include <cstdint>

#include <llmc/cache_types.hpp>
#include <llmc/reference/encoder.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

/// `shape.batch` rows; wpe has `shape.sequence` positions. A token that is out of range contributes
/// nothing, nor does a position.
template <class Real>
void placed_encoder_forward(Real* out, const std::int32_t* tokens, const cache_place* places,
                            const Real* wte, const Real* wpe, encoder_shape shape) {
  checks::require_shape("llmc::reference::placed_encoder_forward", shape);
  const std::int64_t C = shape.channels;
  parallel_for(shape.batch, [&](std::int64_t row) {
    Real* const to = out + row * C;
    std::fill(to, to + C, Real{0});
    const auto add = [&](const Real* from) {
      for (std::int64_t c = 0; c < C; ++c) to[c] += from[c];
    };
    if (has_token(shape, tokens[row])) add(wte + tokens[row] * C);
    const std::int32_t position = places[row].position;
    if (position >= 0 && position < shape.sequence) add(wpe + position * C);
  });
}

LLMC_REFERENCE_END
