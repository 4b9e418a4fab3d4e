/// @file
/// What the layer normalisations with and without a residual share. Derived problems add their own
/// arrays, `launch` and the reference.
#pragma once

#include <llmc/layernorm.cuh>

#include <cstdint>

#include "registry/families/rows.hpp"

namespace llmc_registry {

inline constexpr float layernorm_epsilon = 1e-5f;

/// The largest rstd of rows of normal numbers. A short row may be nearly constant.
inline double most_rstd(std::int64_t channels) {
  return channels < 16 ? 316 : 2;
}

/// The error of a mean is multiplied by rstd.
inline tolerance normalised_tolerance(std::int64_t channels, double scale) {
  return llmc_test::sum_tolerance(channels, 4 * scale * most_rstd(channels));
}

inline tolerance rstd_tolerance(std::int64_t channels) {
  return {0, 4e-6 * most_rstd(channels)};
}

/// For dweight and dbias: sums over the rows, of terms that rarely pass 8.
inline tolerance column_tolerance(llmc::row_shape s) {
  return llmc_test::sum_tolerance(s.rows, 8 * most_rstd(s.channels));
}

/// Outputs in this order: out, mean, rstd.
class layernorm_forward_problem : public row_problem<gpt2_channels> {
 protected:
  /// `scale` is about how large the numbers are before they are normalised.
  layernorm_forward_problem(const extents& e, settings s, double scale)
      : row_problem(e, s),
        out_(output("out", count_, normalised_tolerance(shape_.channels, scale))),
        mean_(output("mean", shape_.rows, llmc_test::sum_tolerance(shape_.channels, scale))) {}

  array& weight_ = input("weight", shape_.channels);
  array& bias_ = input("bias", shape_.channels);
  array& out_;
  array& mean_;
  array& rstd_ = output("rstd", shape_.rows, rstd_tolerance(shape_.channels));
};

/// Outputs in this order: dinp, dweight, dbias.
class layernorm_backward_problem : public row_problem<gpt2_channels> {
 protected:
  /// `normalised` is the launcher's name for the rows.
  layernorm_backward_problem(const extents& e, settings s, const char* normalised)
      : row_problem(e, s), inp_(input(normalised, count_)) {
    if (owns_arrays()) find_statistics();
  }

  array& dout_ = input("dout", count_);
  array& inp_;
  array& weight_ = input("weight", shape_.channels);
  array& mean_ = input("mean", shape_.rows);
  array& rstd_ = input("rstd", shape_.rows);
  array& dinp_ = output("dinp", count_, normalised_tolerance(shape_.channels, 4));
  array& dweight_ = gradient("dweight", shape_.channels, column_tolerance(shape_));
  array& dbias_ = gradient("dbias", shape_.channels, llmc_test::sum_tolerance(shape_.rows, 8));

 private:
  /// Fills mean_ and rstd_, as a forward pass does.
  void find_statistics() {
    const llmc_test::buffer<float> out(count_), weight(shape_.channels), bias(shape_.channels);
    llmc::layernorm_forward(out, mean_, rstd_, inp_, weight, bias, shape_, layernorm_epsilon,
                            nullptr);
    llmc_test::check_cuda(cudaDeviceSynchronize());
  }
};

}  // namespace llmc_registry
