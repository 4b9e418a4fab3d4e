#include <llmc/reference/layernorm.hpp>

#include "../support/finite_difference.hpp"
#include "../support/random.hpp"

using namespace llmc_test;
using llmc::accumulation;

TEST_CASE("reference layernorm: known values", "[layernorm]") {
  // mean 2, variance 2/3: the row becomes (-1, 0, 1) * sqrt(3/2)
  const std::vector<double> inp{1, 2, 3}, weight{1, 2, 1}, bias{0, 5, 10};
  std::vector<double> out(3), mean(1), rstd(1);
  llmc::reference::layernorm_forward(out.data(), mean.data(), rstd.data(), inp.data(),
                                     weight.data(), bias.data(), {1, 3}, 0.0);
  check_close("out", out, std::vector<double>{-std::sqrt(1.5), 5, 10 + std::sqrt(1.5)}, {1e-15, 0});
  check_close("mean", mean, std::vector<double>{2}, {0, 0});
  check_close("rstd", rstd, std::vector<double>{std::sqrt(1.5)}, {1e-15, 0});
}

TEST_CASE("reference layernorm: backward agrees with finite differences", "[layernorm]") {
  const llmc::row_shape shape{3, 5};
  const double epsilon = 1e-5;
  std::vector<double> inp = widen(random_normal(15, 1)), weight = widen(random_normal(5, 2)),
                      bias = widen(random_normal(5, 3));
  const std::vector<double> dout = widen(random_normal(15, 4));
  std::vector<double> out(15), mean(3), rstd(3), dinp(15), dweight(5), dbias(5);
  const auto loss = [&] {
    llmc::reference::layernorm_forward(out.data(), mean.data(), rstd.data(), inp.data(),
                                       weight.data(), bias.data(), shape, epsilon);
    return dot(out, dout);
  };
  loss();
  llmc::reference::layernorm_backward(dinp.data(), dweight.data(), dbias.data(), dout.data(),
                                      inp.data(), weight.data(), mean.data(), rstd.data(), shape,
                                      accumulation::overwrite);
  check_finite_differences("dinp", inp, dinp, loss);
  check_finite_differences("dweight", weight, dweight, loss);
  check_finite_differences("dbias", bias, dbias, loss);

  std::vector<double> twice = dweight;
  llmc::reference::layernorm_backward(dinp.data(), twice.data(), dbias.data(), dout.data(),
                                      inp.data(), weight.data(), mean.data(), rstd.data(), shape,
                                      accumulation::add);
  for (double& d : dweight) d *= 2;
  check_close("added dweight", twice, dweight, {1e-12, 0});
}
