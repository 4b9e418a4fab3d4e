/// @file
/// The fused classifier on the CPU; see llmc/classifier.cuh for the formulas and contracts.
#pragma once

#include <algorithm>
#include <cstdint>

#include <llmc/detail/checks.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/reference/row_softmax.hpp>
#include <llmc/types.hpp>

LLMC_REFERENCE_BEGIN

template <class Real>
void classifier_forward_backward(Real* logits, Real* losses, std::uint64_t* out_of_range,
                                 const std::int32_t* targets, classifier_shape shape,
                                 double dloss) {
  checks::require_shape("llmc::reference::classifier_forward_backward", shape);
  parallel_for(shape.rows, [&](std::int64_t row) {
    Real* x = logits + row * shape.padded_vocabulary;
    const std::int32_t target = targets[row];
    if (!has_target(shape, target)) {
      losses[row] = 0;
      std::fill(x, x + shape.padded_vocabulary, Real{0});
      return;
    }
    const softmax_statistics statistics = softmax_row_statistics(x, shape.vocabulary);
    losses[row] = static_cast<Real>(statistics.loss(x[target]));
    crossentropy_gradient_row(x, x, statistics, target, dloss, shape);
  });
  if (out_of_range != nullptr) *out_of_range += count_out_of_range(targets, shape);
}

LLMC_REFERENCE_END
