/// @file
/// The sum of losses on the CPU; see llmc/loss_sum.cuh for the formulas and contracts.
#pragma once

#include <cmath>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

template <class Real>
void loss_sum(double* sum, const Real* losses, std::int64_t count, accumulation mode) {
  checks::require_count("llmc::reference::loss_sum", count);
  double total = 0;
  for (std::int64_t r = 0; r < count; ++r) total += static_cast<double>(losses[r]);
  *sum = mode == accumulation::add ? *sum + total : total;
}

inline void skip_update_unless_sound(clip_state* clip, const double* loss,
                                     const std::uint64_t* out_of_range) {
  const bool sound =
      (loss == nullptr || std::isfinite(*loss)) && (out_of_range == nullptr || *out_of_range == 0);
  if (sound) return;
  clip->scale = 0;
  clip->finite = 0;
}

LLMC_REFERENCE_END
