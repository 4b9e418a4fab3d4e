#include <llmc/reference/matmul.hpp>

#include "../support/finite_difference.hpp"
#include "../support/random.hpp"

using namespace llmc_test;
using llmc::accumulation;

TEST_CASE("reference matmul: known values", "[matmul]") {
  const std::vector<double> inp{1, 2, 3, 4}, weight{1, 0, 1, 1, 2, -1}, bias{0.5, 0, 10};
  std::vector<double> out(6);
  llmc::reference::matmul_forward(out.data(), inp.data(), weight.data(), bias.data(), {2, 2, 3});
  check_close("out", out, std::vector<double>{1.5, 3, 10, 3.5, 7, 12}, {0, 0});
}

TEST_CASE("reference matmul: a product over no channels is the bias", "[matmul]") {
  const std::vector<double> bias{1, 2};
  std::vector<double> out(4, -1);
  const double* none = nullptr;
  llmc::reference::matmul_forward(out.data(), none, none, bias.data(), {2, 0, 2});
  check_close("out", out, std::vector<double>{1, 2, 1, 2}, {0, 0});
}

TEST_CASE("reference matmul: backward agrees with finite differences", "[matmul]") {
  const llmc::matmul_shape shape{3, 19, 5};
  std::vector<double> inp = widen(random_normal(3 * 19, 1)), weight = widen(random_normal(95, 2)),
                      bias = widen(random_normal(5, 3));
  const std::vector<double> dout = widen(random_normal(15, 4));
  std::vector<double> out(15), dinp(inp.size()), dweight(weight.size(), 1), dbias(5, 1);
  const auto loss = [&] {
    llmc::reference::matmul_forward(out.data(), inp.data(), weight.data(), bias.data(), shape);
    return dot(out, dout);
  };
  llmc::reference::matmul_backward(dinp.data(), dweight.data(), dbias.data(), dout.data(),
                                   inp.data(), weight.data(), shape, accumulation::overwrite);
  check_finite_differences("dinp", inp, dinp, loss);
  check_finite_differences("dweight", weight, dweight, loss);
  check_finite_differences("dbias", bias, dbias, loss);

  std::vector<double> twice = dweight, untouched(dinp.size(), 7);
  llmc::reference::matmul_backward(static_cast<double*>(nullptr), twice.data(),
                                   static_cast<double*>(nullptr), dout.data(), inp.data(),
                                   weight.data(), shape, accumulation::add);
  for (double& d : dweight) d *= 2;
  check_close("added dweight", twice, dweight, {1e-12, 0});
}
