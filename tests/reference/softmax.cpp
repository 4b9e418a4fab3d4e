#include <llmc/reference/softmax.hpp>

#include <limits>

#include "../support/finite_difference.hpp"
#include "../support/random.hpp"

using namespace llmc_test;

TEST_CASE("reference softmax: known values", "[softmax]") {
  const std::vector<double> inp{0, std::log(2.0), std::log(5.0)};
  std::vector<double> out(3);
  llmc::reference::softmax_forward(out.data(), inp.data(), {1, 3});
  check_close("out", out, std::vector<double>{0.125, 0.25, 0.625}, {1e-15, 0});
}

TEST_CASE("reference softmax: large scores and -infinity", "[softmax]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> inp{1e300, 1e300,     -1e300,    -infinity,
                                7,     -infinity, -infinity, -infinity};
  std::vector<double> out(8);
  llmc::reference::softmax_forward(out.data(), inp.data(), {2, 4});
  check_close("out", out, std::vector<double>{0.5, 0.5, 0, 0, 1, 0, 0, 0}, {0, 0});

  const std::vector<double> nothing{-infinity, -infinity};
  llmc::reference::softmax_forward(out.data(), nothing.data(), {1, 2});
  CHECK(std::isnan(out[0]));
}

TEST_CASE("reference softmax: backward agrees with finite differences", "[softmax]") {
  const llmc::row_shape shape{3, 5};
  std::vector<double> inp = widen(random_normal(15, 1));
  const std::vector<double> dout = widen(random_normal(15, 2));
  std::vector<double> out(15), dinp(15);
  const auto loss = [&] {
    llmc::reference::softmax_forward(out.data(), inp.data(), shape);
    return dot(out, dout);
  };
  loss();
  llmc::reference::softmax_backward(dinp.data(), dout.data(), out.data(), shape);
  check_finite_differences("dinp", inp, dinp, loss);
}
