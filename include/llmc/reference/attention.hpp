/// @file
/// Causal self-attention on the CPU; see llmc/attention.cuh for the formulas and contracts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <llmc/detail/checks.hpp>
#include <llmc/reference/matmul.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

/// Where the vectors of one head of one batch entry lie.
struct attention_head {
  std::int64_t batch;
  std::int64_t head;
  attention_shape shape;

  /// Offset of query (0), key (1) or value (2) `which` of position t in (B, T, 3, NH, HS).
  std::int64_t qkv(int which, std::int64_t t) const {
    return (((batch * shape.sequence + t) * 3 + which) * shape.heads + head) * shape.head_size;
  }
  /// Offset of position t in (B, T, NH, HS).
  std::int64_t out(std::int64_t t) const {
    return ((batch * shape.sequence + t) * shape.heads + head) * shape.head_size;
  }
  /// Offset of position t in (B, NH, T).
  std::int64_t lse(std::int64_t t) const {
    return (batch * shape.heads + head) * shape.sequence + t;
  }
};

/// Calls `body(attention_head, scratch)` for every batch entry and head, in parallel, with scratch
/// for that many doubles.
template <class Body>
void for_each_head(attention_shape shape, std::int64_t doubles, Body body) {
  parallel_for(shape.batch * shape.heads, doubles, [&](std::int64_t i, double* scratch) {
    body(attention_head{i / shape.heads, i % shape.heads, shape}, scratch);
  });
}

template <class Real>
void attention_forward(Real* out, Real* lse, const Real* qkv, attention_shape shape) {
  checks::require_shape("llmc::reference::attention_forward", shape);
  const std::int64_t HS = shape.head_size;
  const double scale = 1 / std::sqrt(static_cast<double>(HS));
  for_each_head(shape, HS + shape.sequence, [&](attention_head at, double* mean) {
    double* const scores = mean + HS;
    for (std::int64_t t = 0; t < shape.sequence; ++t) {
      double largest = -std::numeric_limits<double>::infinity();
      for (std::int64_t j = 0; j <= t; ++j) {
        const double score = scale * dot(qkv + at.qkv(0, t), qkv + at.qkv(1, j), HS);
        scores[j] = score;
        largest = std::fmax(largest, score);
      }
      double sum = 0;
      std::fill(mean, mean + HS, 0.0);
      for (std::int64_t j = 0; j <= t; ++j) {
        const double weight = std::exp(scores[j] - largest);
        sum += weight;
        add_scaled(mean, weight, qkv + at.qkv(2, j), HS);
      }
      for (std::int64_t d = 0; d < HS; ++d) {
        out[at.out(t) + d] = static_cast<Real>(mean[d] / sum);
      }
      lse[at.lse(t)] = static_cast<Real>(largest + std::log(sum));
    }
  });
}

/// `dqkv_bias` may be null.
template <class Real>
void attention_backward(Real* dqkv, Real* dqkv_bias, const Real* dout, const Real* qkv,
                        const Real* out, const Real* lse, attention_shape shape,
                        accumulation mode) {
  checks::require_shape("llmc::reference::attention_backward", shape);
  const std::int64_t T = shape.sequence;
  const std::int64_t HS = shape.head_size;
  const double scale = 1 / std::sqrt(static_cast<double>(HS));
  for_each_head(shape, (1 + 2 * T) * HS, [&](attention_head at, double* dq) {
    double* const dk = dq + HS;
    double* const dv = dk + T * HS;
    std::fill(dk, dv + T * HS, 0.0);
    const auto store = [&](Real* to, const double* sums) {
      for (std::int64_t d = 0; d < HS; ++d) to[d] = static_cast<Real>(sums[d]);
    };
    for (std::int64_t t = 0; t < T; ++t) {
      const Real* q = qkv + at.qkv(0, t);
      const double delta = dot(dout + at.out(t), out + at.out(t), HS);
      std::fill(dq, dq + HS, 0.0);
      for (std::int64_t j = 0; j <= t; ++j) {
        const Real* k = qkv + at.qkv(1, j);
        const Real* v = qkv + at.qkv(2, j);
        const double p = std::exp(scale * dot(q, k, HS) - static_cast<double>(lse[at.lse(t)]));
        const double ds = scale * p * (dot(dout + at.out(t), v, HS) - delta);
        add_scaled(dq, ds, k, HS);
        add_scaled(dk + j * HS, ds, q, HS);
        add_scaled(dv + j * HS, p, dout + at.out(t), HS);
      }
      store(dqkv + at.qkv(0, t), dq);
    }
    for (std::int64_t t = 0; t < T; ++t) {
      store(dqkv + at.qkv(1, t), dk + t * HS);
      store(dqkv + at.qkv(2, t), dv + t * HS);
    }
  });
  if (dqkv_bias != nullptr) {
    matmul_bias_backward(dqkv_bias, dqkv, {shape.batch * T, 3 * shape.heads * HS}, mode);
  }
}

LLMC_REFERENCE_END
