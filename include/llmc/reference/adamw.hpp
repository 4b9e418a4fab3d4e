/// @file
/// The AdamW update on the CPU; see llmc/adamw.cuh for the formulas and contracts.
#pragma once

#include <cmath>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

template <class Real>
void adamw_update(Real* params, Real* m, Real* v, const Real* grads, std::int64_t count,
                  adamw_parameters parameters, const float* learning_rate, const std::int64_t* step,
                  const clip_state* clip) {
  constexpr const char* function = "llmc::reference::adamw_update";
  checks::require_count(function, count);
  checks::require_parameters(function, parameters);
  if (clip != nullptr && clip->finite == 0) return;

  const double scale = clip != nullptr ? clip->scale : 1.0;
  const double beta1 = parameters.beta1;
  const double beta2 = parameters.beta2;
  const double correction1 = 1 - std::pow(beta1, static_cast<double>(*step));
  const double correction2 = 1 - std::pow(beta2, static_cast<double>(*step));
  parallel_for(count, [&](std::int64_t i) {
    const double g = scale * grads[i];
    const double mean = beta1 * m[i] + (1 - beta1) * g;
    const double square = beta2 * v[i] + (1 - beta2) * g * g;
    const double direction =
        mean / correction1 / (std::sqrt(square / correction2) + parameters.epsilon);
    const double decay = parameters.weight_decay * static_cast<double>(params[i]);
    params[i] = static_cast<Real>(params[i] - *learning_rate * (direction + decay));
    m[i] = static_cast<Real>(mean);
    v[i] = static_cast<Real>(square);
  });
}

template <class Real>
void adamw_update_segments(Real* params, Real* m, Real* v, const Real* grads,
                           const adamw_segment* segments, std::int64_t segment_count,
                           adamw_parameters parameters, const float* learning_rate,
                           const std::int64_t* step, const clip_state* clip) {
  checks::require_segments("llmc::reference::adamw_update_segments", segments, segment_count);
  std::int64_t begin = 0;
  for (std::int64_t s = 0; s < segment_count; ++s) {
    adamw_parameters of_segment = parameters;
    if (!segments[s].decays) of_segment.weight_decay = 0;
    adamw_update(params + begin, m + begin, v + begin, grads + begin, segments[s].count, of_segment,
                 learning_rate, step, clip);
    begin += segments[s].count;
  }
}

LLMC_REFERENCE_END
