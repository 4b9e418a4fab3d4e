#include <llmc/reference/causal_softmax.hpp>

#include <limits>

#include "../support/finite_difference.hpp"
#include "../support/random.hpp"

using namespace llmc_test;

TEST_CASE("reference causal softmax: known values", "[causal_softmax]") {
  constexpr double ignored = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> inp{
      7, ignored, ignored, 0, std::log(3.0) / 2, ignored, 0, std::log(2.0) / 2, std::log(5.0) / 2};
  std::vector<double> out(9);
  llmc::reference::causal_softmax_forward(out.data(), inp.data(), {1, 3, 1, 1}, 2.0);
  const std::vector<double> expected{1, 0, 0, 0.25, 0.75, 0, 0.125, 0.25, 0.625};
  check_close("out", out, expected, {1e-15, 0});
}

TEST_CASE("reference causal softmax: backward agrees with finite differences", "[causal_softmax]") {
  const llmc::attention_shape shape{2, 5, 3, 1};
  constexpr double scale = 0.7;
  std::vector<double> inp = widen(random_normal(2 * 3 * 5 * 5, 1));
  const std::vector<double> dout = widen(random_normal(2 * 3 * 5 * 5, 2));
  std::vector<double> out(inp.size()), dinp(inp.size());
  const auto loss = [&] {
    llmc::reference::causal_softmax_forward(out.data(), inp.data(), shape, scale);
    return dot(out, dout);
  };
  loss();
  llmc::reference::causal_softmax_backward(dinp.data(), dout.data(), out.data(), shape, scale);
  check_finite_differences("dinp", inp, dinp, loss);
}
