/// @file
/// The norm of all gradients and the clip scale on the CPU; see llmc/global_norm.cuh for the
/// formulas and contracts.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

template <class Real>
void global_norm(clip_state* result, const Real* grads, std::int64_t count, float max_norm) {
  constexpr const char* function = "llmc::reference::global_norm";
  checks::require_count(function, count);
  checks::require_not_nan(function, "max_norm", max_norm);
  double squares = 0;
  for (std::int64_t i = 0; i < count; ++i) squares += static_cast<double>(grads[i]) * grads[i];
  const double norm = std::sqrt(squares);
  const bool finite = std::isfinite(static_cast<float>(norm));
  const double scale = max_norm > 0 ? (std::min)(1.0, max_norm / norm) : 1.0;
  *result = {static_cast<float>(norm), finite ? static_cast<float>(scale) : 0.0f, finite ? 1 : 0};
}

LLMC_REFERENCE_END
