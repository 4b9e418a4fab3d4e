/// @file
/// Attention of new tokens over a cache of keys and values, on the CPU. Row r, at place (b, p):
///
///     keys[b, :, p]   = k[r],  values[b, :, p] = v[r]
///     out[r]          = softmax(q[r] . keys[b, :, 0 ... p]^T / sqrt(HS)) values[b, :, 0 ... p]
///
/// All rows' keys and values are in the cache before the first sum is made, so several new tokens
/// of one text may come together, in any order. The sums are those of attention_forward, bit by
/// bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <llmc/cache_types.hpp>
#include <llmc/detail/checks.hpp>
#include <llmc/reference/matmul.hpp>
#include <llmc/reference/parallel.hpp>

LLMC_REFERENCE_BEGIN

/// @param[out]    out     (rows, NH, HS), overwritten; 0 in rows that take no part
/// @param[in,out] keys    (texts, NH, capacity, HS), what comes before the new tokens is read
/// @param[in,out] values  the same
/// @param[in]     qkv     (rows, 3, NH, HS)
/// @param[in]     places  (rows), of which no two are the same
template <class Real>
void cached_attention_forward(Real* out, Real* keys, Real* values, const Real* qkv,
                              const cache_place* places, cached_attention_shape shape) {
  checks::require_shape("llmc::reference::cached_attention_forward", shape);
  const std::int64_t NH = shape.heads;
  const std::int64_t HS = shape.head_size;
  const double scale = 1 / std::sqrt(static_cast<double>(HS));
  /// Of query (0), key (1) or value (2) of a row.
  const auto vector_of = [&](std::int64_t row, int which, std::int64_t head) {
    return qkv + ((row * 3 + which) * NH + head) * HS;
  };
  /// Offset of the first position of a head in the cache.
  const auto in_cache = [&](cache_place at, std::int64_t head) {
    return (at.text * NH + head) * shape.capacity * HS;
  };

  parallel_for(shape.rows * NH, [&](std::int64_t i) {
    const cache_place at = places[i / NH];
    if (!shape.has(at)) return;
    const std::int64_t to = in_cache(at, i % NH) + at.position * HS;
    std::copy_n(vector_of(i / NH, 1, i % NH), HS, keys + to);
    std::copy_n(vector_of(i / NH, 2, i % NH), HS, values + to);
  });
  parallel_for(shape.rows * NH, HS + shape.capacity, [&](std::int64_t i, double* mean) {
    double* const scores = mean + HS;
    const cache_place at = places[i / NH];
    std::fill(mean, mean + HS, 0.0);
    double sum = 0;
    if (shape.has(at)) {
      const Real* const q = vector_of(i / NH, 0, i % NH);
      const std::int64_t first = in_cache(at, i % NH);
      double largest = -std::numeric_limits<double>::infinity();
      for (std::int64_t j = 0; j <= at.position; ++j) {
        scores[j] = scale * dot(q, keys + first + j * HS, HS);
        largest = std::fmax(largest, scores[j]);
      }
      for (std::int64_t j = 0; j <= at.position; ++j) {
        const double weight = std::exp(scores[j] - largest);
        sum += weight;
        add_scaled(mean, weight, values + first + j * HS, HS);
      }
    } else {
      sum = 1;
    }
    for (std::int64_t d = 0; d < HS; ++d) out[i * HS + d] = static_cast<Real>(mean[d] / sum);
  });
}

LLMC_REFERENCE_END
