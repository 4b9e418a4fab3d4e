/// @file
/// The learning rate as a pure function of the step.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace gpt2_trainer {

enum class schedule_kind {
  cosine,
  linear,
  constant,
  wsd  ///< warm-up, stable, decay: the peak for four fifths of the run, then down by 1 - sqrt(x)
};

constexpr const char* to_string(schedule_kind kind) {
  switch (kind) {
    case schedule_kind::cosine: return "cosine";
    case schedule_kind::linear: return "linear";
    case schedule_kind::constant: return "constant";
    case schedule_kind::wsd: return "wsd";
  }
  return "unknown";
}

inline constexpr std::array schedule_kinds{schedule_kind::cosine, schedule_kind::linear,
                                           schedule_kind::constant, schedule_kind::wsd};

struct schedule {
  schedule_kind kind;
  double peak;
  double minimum;       ///< reached at the last step and kept after it; not used by `constant`
  std::int64_t warmup;  ///< steps that rise in a straight line to the peak; may be 0
  std::int64_t steps;   ///< of the whole run, those of the warm-up included
};

/// How much of the way down from the peak to the minimum is left, where `progress` of its steps are
/// done.
inline double part_left(schedule_kind kind, double progress) {
  switch (kind) {
    case schedule_kind::cosine: return 0.5 * (1 + std::cos(3.14159265358979323846 * progress));
    case schedule_kind::linear: return 1 - progress;
    case schedule_kind::constant: return 1;
    case schedule_kind::wsd: return 1 - std::sqrt(progress);
  }
  return 0;
}

/// The learning rate of a step, counted from 1. Finite and between 0 and the peak for every step
/// and every length of the warm-up.
inline double learning_rate(const schedule& s, std::int64_t step) {
  if (step <= s.warmup && step <= s.steps) {
    const double part =
        static_cast<double>(step) / static_cast<double>(std::max<std::int64_t>(s.warmup, 1));
    return s.peak * std::clamp(part, 0.0, 1.0);
  }
  if (s.kind == schedule_kind::constant) return s.peak;
  if (step >= s.steps) return s.minimum;
  // The last step at the peak. Here warmup < step < steps.
  const std::int64_t begin =
      s.kind == schedule_kind::wsd ? std::max(s.warmup, s.steps - s.steps / 5) : s.warmup;
  if (step <= begin) return s.peak;
  const double progress = static_cast<double>(step - begin) / static_cast<double>(s.steps - begin);
  return s.minimum + (s.peak - s.minimum) * part_left(s.kind, progress);
}

}  // namespace gpt2_trainer
