/// @file
/// Token and position embedding on the CPU; see llmc/encoder.cuh for the formulas and contracts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <llmc/detail/checks.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

/// Whether a token has a row in the table; else it contributes nothing.
inline bool has_token(encoder_shape shape, std::int32_t token) {
  return token >= 0 && token < shape.vocabulary;
}

template <class Real>
void encoder_forward(Real* out, std::uint64_t* out_of_range, const std::int32_t* tokens,
                     const Real* wte, const Real* wpe, encoder_shape shape) {
  checks::require_shape("llmc::reference::encoder_forward", shape);
  const std::int64_t C = shape.channels;
  const std::int64_t rows = shape.batch * shape.sequence;
  parallel_for(rows, [&](std::int64_t row) {
    const Real* position = wpe + row % shape.sequence * C;
    if (!has_token(shape, tokens[row])) {
      std::copy(position, position + C, out + row * C);
      return;
    }
    const Real* token = wte + tokens[row] * C;
    for (std::int64_t c = 0; c < C; ++c) out[row * C + c] = token[c] + position[c];
  });
  if (out_of_range != nullptr) {
    *out_of_range += static_cast<std::uint64_t>(std::count_if(
        tokens, tokens + rows, [&](std::int32_t token) { return !has_token(shape, token); }));
  }
}

/// Sums the rows `dout[row_of(0)] ... dout[row_of(count - 1)]` into `gradient`, by way of `sums`.
template <class Real, class RowOf>
void encoder_sum_rows(Real* gradient, double* sums, const Real* dout, std::int64_t count,
                      std::int64_t channels, RowOf row_of, accumulation mode) {
  if (mode == accumulation::add) {
    std::copy(gradient, gradient + channels, sums);
  } else {
    std::fill(sums, sums + channels, 0.0);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const Real* row = dout + row_of(i) * channels;
    for (std::int64_t c = 0; c < channels; ++c) sums[c] += row[c];
  }
  std::transform(sums, sums + channels, gradient,
                 [](double sum) { return static_cast<Real>(sum); });
}

template <class Real>
void encoder_backward(Real* dwte, Real* dwpe, const std::int32_t* tokens, const Real* dout,
                      encoder_shape shape, accumulation dwte_mode, accumulation dwpe_mode) {
  checks::require_shape("llmc::reference::encoder_backward", shape);
  const std::int64_t C = shape.channels;
  parallel_for(shape.sequence, C, [&](std::int64_t t, double* sums) {
    const auto row_of = [&](std::int64_t b) { return b * shape.sequence + t; };
    encoder_sum_rows(dwpe + t * C, sums, dout, shape.batch, C, row_of, dwpe_mode);
  });

  // The rows of each token, so that different tokens can be summed at the same time.
  std::vector<std::vector<std::int64_t>> rows_of(static_cast<std::size_t>(shape.vocabulary));
  for (std::int64_t row = 0; row < shape.batch * shape.sequence; ++row) {
    if (!has_token(shape, tokens[row])) continue;
    rows_of[static_cast<std::size_t>(tokens[row])].push_back(row);
  }
  parallel_for(shape.vocabulary, C, [&](std::int64_t token, double* sums) {
    const std::vector<std::int64_t>& rows = rows_of[static_cast<std::size_t>(token)];
    if (rows.empty() && dwte_mode == accumulation::add) return;
    const auto row_of = [&](std::int64_t i) { return rows[static_cast<std::size_t>(i)]; };
    encoder_sum_rows(dwte + token * C, sums, dout, static_cast<std::int64_t>(rows.size()), C,
                     row_of, dwte_mode);
  });
}

LLMC_REFERENCE_END
