/// @file
/// A linear layer's arrays with what both directions should give.
#pragma once

#include <llmc/reference/matmul.hpp>

#include <cstddef>
#include <vector>

#include "compare.hpp"
#include "random.hpp"

namespace llmc_test {

struct linear_case {
  llmc::matmul_shape shape;
  std::vector<float> inp, weight, bias, residual, dout;
  std::vector<double> out, dinp, dweight, dbias;

  explicit linear_case(llmc::matmul_shape s)
      : shape(s),
        inp(random_normal(s.rows * s.channels, 1)),
        weight(random_normal(s.out_channels * s.channels, 2)),
        bias(random_normal(s.out_channels, 3)),
        residual(random_normal(s.rows * s.out_channels, 4)),
        dout(random_normal(s.rows * s.out_channels, 5)) {
    compute();
  }

  /// What the arrays, which may have been changed, should give.
  void compute() {
    const std::vector<double> x = widen(inp), w = widen(weight), b = widen(bias), d = widen(dout);
    out.resize(dout.size());
    dinp.resize(inp.size());
    dweight.resize(weight.size());
    dbias.resize(bias.size());
    llmc::reference::matmul_forward(out.data(), x.data(), w.data(), b.data(), shape);
    llmc::reference::matmul_backward(dinp.data(), dweight.data(), dbias.data(), d.data(), x.data(),
                                     w.data(), shape, llmc::accumulation::overwrite);
  }

  std::vector<double> out_and_residual() const {
    std::vector<double> sum = out;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += residual[i];
    return sum;
  }
};

}  // namespace llmc_test
