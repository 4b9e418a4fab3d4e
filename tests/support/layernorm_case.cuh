/// @file
/// A layer normalisation's arrays with what both directions should give, for its tests.
#pragma once

#include <llmc/reference/layernorm.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "compare.hpp"
#include "random.hpp"
#include "sizes.hpp"

namespace llmc_test {

inline constexpr float layernorm_epsilon = 1e-5f;

/// What takes each way through the kernels: some and all of a warp's or a block's registers, one
/// more than fits.
inline const std::vector<std::int64_t> layernorm_row_lengths =
    sweep({256, 260, 1024, 1025, 1028, 2052, 4100, 6148, 8192, 8193, 8196});

struct layernorm_case {
  llmc::row_shape shape;
  std::vector<float> inp, weight, bias, dout;
  std::vector<double> out, mean, rstd, dinp, dweight, dbias;

  explicit layernorm_case(llmc::row_shape s, double input_mean = 0.0) : shape(s) {
    const std::int64_t count = s.rows * s.channels;
    inp = random_normal(count, 1, 1.0, input_mean);
    weight = random_normal(s.channels, 2);
    bias = random_normal(s.channels, 3);
    dout = random_normal(count, 4);
    out.resize(inp.size());
    dinp.resize(inp.size());
    mean.resize(static_cast<std::size_t>(s.rows));
    rstd.resize(static_cast<std::size_t>(s.rows));
    dweight.resize(weight.size());
    dbias.resize(weight.size());
    llmc::reference::layernorm_forward(out.data(), mean.data(), rstd.data(), widen(inp).data(),
                                       widen(weight).data(), widen(bias).data(), shape,
                                       layernorm_epsilon);
    differentiate();
  }

  void differentiate() {
    llmc::reference::layernorm_backward(
        dinp.data(), dweight.data(), dbias.data(), widen(dout).data(), widen(inp).data(),
        widen(weight).data(), mean.data(), rstd.data(), shape, llmc::accumulation::overwrite);
  }
};

/// At least 1.
inline double largest_rstd(const layernorm_case& c) {
  double largest = 1;
  for (const double r : c.rstd) largest = std::max(largest, r);
  return largest;
}

/// The tolerance of a normalised row. A mean far from 0 costs digits of the deviations, and rstd
/// multiplies that error: with C = 1 it is 1 / sqrt(epsilon).
inline tolerance row_tolerance(const layernorm_case& c, double input_scale) {
  return sum_tolerance(c.shape.channels, 4 * input_scale * largest_rstd(c));
}

}  // namespace llmc_test
