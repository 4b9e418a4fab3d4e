/// @file
/// The arrays of layer normalisation's problems, with and without a residual. Derived classes add
/// their own, `launch` and the reference.
#pragma once

#include "layernorm.hpp"
#include "rows.hpp"

namespace llmc_registry {

/// Outputs in this order: out, mean, rstd.
class layernorm_forward_problem : public row_problem<gpt2_channels> {
 protected:
  /// `scale` is about that of the rows that are normalised.
  layernorm_forward_problem(const extents& e, settings s, double scale)
      : row_problem(e, s),
        out_(output("out", count_, normalised_tolerance(shape_.channels, scale))),
        mean_(output("mean", shape_.rows, llmc_test::sum_tolerance(shape_.channels, scale))) {}

  array& weight_ = input(shape_.channels);
  array& bias_ = input(shape_.channels);
  array& out_;
  array& mean_;
  array& rstd_ = output("rstd", shape_.rows, rstd_tolerance(shape_.channels));
};

/// Outputs in this order: dinp, dweight, dbias.
class layernorm_backward_problem : public row_problem<gpt2_channels> {
 protected:
  layernorm_backward_problem(const extents& e, settings s) : row_problem(e, s) {
    layernorm_statistics(mean_, rstd_, inp_, shape_);
  }

  array& dout_ = input(count_);
  array& inp_ = input(count_);  ///< of the normalisation: the residual, where there is one
  array& weight_ = input(shape_.channels);
  array& mean_ = input(shape_.rows);
  array& rstd_ = input(shape_.rows);
  array& dinp_ = output("dinp", count_, normalised_tolerance(shape_.channels, 4));
  array& dweight_ = gradient("dweight", shape_.channels, column_tolerance(shape_));
  array& dbias_ = gradient("dbias", shape_.channels, llmc_test::sum_tolerance(shape_.rows, 8));
};

}  // namespace llmc_registry
