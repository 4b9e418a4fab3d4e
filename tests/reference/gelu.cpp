#include <llmc/reference/gelu.hpp>

#include "../support/finite_difference.hpp"
#include "../support/gelu_values.hpp"
#include "../support/random.hpp"

using namespace llmc_test;

TEST_CASE("reference gelu: known values", "[gelu]") {
  const std::vector<double> inp = widen(gelu_inputs), dout(inp.size(), 1.0);
  std::vector<double> out(inp.size()), dinp(inp.size());
  const auto count = static_cast<std::int64_t>(inp.size());
  llmc::reference::gelu_forward(out.data(), inp.data(), count);
  llmc::reference::gelu_backward(dinp.data(), dout.data(), inp.data(), count);
  check_close("out", out, gelu_outputs, {1e-8, 1e-8});
  check_close("dinp", dinp, gelu_derivatives, {1e-8, 1e-8});
}

TEST_CASE("reference gelu: backward agrees with finite differences", "[gelu]") {
  std::vector<double> inp = widen(random_normal(40, 1, 2.0));
  const std::vector<double> dout = widen(random_normal(40, 2));
  std::vector<double> out(40), dinp(40);
  llmc::reference::gelu_backward(dinp.data(), dout.data(), inp.data(), 40);
  check_finite_differences("dinp", inp, dinp, [&] {
    llmc::reference::gelu_forward(out.data(), inp.data(), 40);
    return dot(out, dout);
  });

  std::vector<double> in_place = dout;
  llmc::reference::gelu_backward(in_place.data(), in_place.data(), inp.data(), 40);
  check_close("dinp over dout", in_place, dinp, {0, 0});
}
