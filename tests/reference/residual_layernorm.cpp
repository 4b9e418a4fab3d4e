#include <llmc/reference/residual_layernorm.hpp>

#include "../support/finite_difference.hpp"
#include "../support/random.hpp"

using namespace llmc_test;
using llmc::accumulation;

namespace {

struct problem {
  llmc::row_shape shape{3, 5};
  double epsilon = 1e-5;
  std::vector<double> inp1 = widen(random_normal(15, 1)), inp2 = widen(random_normal(15, 2)),
                      weight = widen(random_normal(5, 3)), bias = widen(random_normal(5, 4)),
                      dout = widen(random_normal(15, 5)), dresidual = widen(random_normal(15, 6));
  std::vector<double> residual, out, mean, rstd, dinp, dinp_bias, dweight, dbias;

  problem()
      : residual(15), out(15), mean(3), rstd(3), dinp(15), dinp_bias(5), dweight(5), dbias(5) {
    forward();
  }

  void forward() {
    llmc::reference::residual_layernorm_forward(residual.data(), out.data(), mean.data(),
                                                rstd.data(), inp1.data(), inp2.data(),
                                                weight.data(), bias.data(), shape, epsilon);
  }
  void backward(double* to, const double* dout_from, const double* dresidual_from) {
    llmc::reference::residual_layernorm_backward(
        to, dinp_bias.data(), dweight.data(), dbias.data(), dout_from, dresidual_from,
        residual.data(), weight.data(), mean.data(), rstd.data(), shape, accumulation::overwrite);
  }
};

}  // namespace

TEST_CASE("reference residual_layernorm: the sum, then its normalisation", "[residual_layernorm]") {
  const problem p;
  std::vector<double> sum(15), out(15);
  for (std::size_t i = 0; i < 15; ++i) sum[i] = p.inp1[i] + p.inp2[i];
  llmc::reference::layernorm_forward<double>(out.data(), nullptr, nullptr, sum.data(),
                                             p.weight.data(), p.bias.data(), p.shape, p.epsilon);
  check_close("residual", p.residual, sum, {0, 0});
  check_close("out", p.out, out, {0, 0});
}

TEST_CASE("reference residual_layernorm: backward agrees with finite differences",
          "[residual_layernorm]") {
  problem p;
  const auto loss = [&] {
    p.forward();
    return dot(p.out, p.dout) + dot(p.residual, p.dresidual);
  };
  p.backward(p.dinp.data(), p.dout.data(), p.dresidual.data());
  check_finite_differences("inp1", p.inp1, p.dinp, loss);
  check_finite_differences("inp2", p.inp2, p.dinp, loss);
  check_finite_differences("weight", p.weight, p.dweight, loss);
  check_finite_differences("bias", p.bias, p.dbias, loss);
  std::vector<double> sums(5);
  for (std::size_t i = 0; i < 15; ++i) sums[i % 5] += p.dinp[i];
  check_close("dinp_bias", p.dinp_bias, sums, {1e-14, 0});
}

TEST_CASE("reference residual_layernorm: backward over its inputs, and without dresidual",
          "[residual_layernorm]") {
  problem p;
  p.backward(p.dinp.data(), p.dout.data(), p.dresidual.data());
  std::vector<double> over_dout = p.dout, over_dresidual = p.dresidual, alone(15);
  p.backward(over_dout.data(), over_dout.data(), p.dresidual.data());
  p.backward(over_dresidual.data(), p.dout.data(), over_dresidual.data());
  check_close("dinp over dout", over_dout, p.dinp, {0, 0});
  check_close("dinp over dresidual", over_dresidual, p.dinp, {0, 0});

  p.backward(alone.data(), p.dout.data(), nullptr);
  for (std::size_t i = 0; i < 15; ++i) alone[i] += p.dresidual[i];
  check_close("dinp without dresidual", alone, p.dinp, {1e-14, 0});
}
