/// @file
/// The residual add on the CPU; see llmc/residual.cuh for the formulas and contracts.
#pragma once

#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

template <class Real>
void residual_forward(Real* out, const Real* inp1, const Real* inp2, std::int64_t count) {
  checks::require_count("llmc::reference::residual_forward", count);
  parallel_for(count, [&](std::int64_t i) { out[i] = inp1[i] + inp2[i]; });
}

template <class Real>
void residual_backward(Real* dinp1, Real* dinp2, const Real* dout, std::int64_t count,
                       accumulation mode) {
  checks::require_count("llmc::reference::residual_backward", count);
  const bool add = mode == accumulation::add;
  parallel_for(count, [&](std::int64_t i) {
    const Real d = dout[i];
    dinp1[i] = add ? dinp1[i] + d : d;
    dinp2[i] = add ? dinp2[i] + d : d;
  });
}

LLMC_REFERENCE_END
