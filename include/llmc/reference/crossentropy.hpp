/// @file
/// Cross-entropy on the CPU; see llmc/crossentropy.cuh for the formulas and contracts.
#pragma once

#include <algorithm>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/reference/row_softmax.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

template <class Real>
void crossentropy_forward(Real* losses, std::uint64_t* out_of_range, const Real* logits,
                          const std::int32_t* targets, classifier_shape shape) {
  checks::require_shape("llmc::reference::crossentropy_forward", shape);
  parallel_for(shape.rows, [&](std::int64_t row) {
    const Real* x = logits + row * shape.padded_vocabulary;
    losses[row] = 0;
    if (!has_target(shape, targets[row])) return;
    losses[row] =
        static_cast<Real>(softmax_row_statistics(x, shape.vocabulary).loss(x[targets[row]]));
  });
  if (out_of_range != nullptr) *out_of_range += count_out_of_range(targets, shape);
}

template <class Real>
void crossentropy_backward(Real* dlogits, const Real* dlosses, const Real* logits,
                           const std::int32_t* targets, classifier_shape shape) {
  checks::require_shape("llmc::reference::crossentropy_backward", shape);
  parallel_for(shape.rows, [&](std::int64_t row) {
    const Real* x = logits + row * shape.padded_vocabulary;
    Real* dx = dlogits + row * shape.padded_vocabulary;
    if (has_target(shape, targets[row])) {
      crossentropy_gradient_row(dx, x, softmax_row_statistics(x, shape.vocabulary), targets[row],
                                dlosses[row], shape);
    } else {
      std::fill(dx, dx + shape.padded_vocabulary, Real{0});
    }
  });
}

LLMC_REFERENCE_END
