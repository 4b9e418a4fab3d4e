#include <llmc/reference/attention.hpp>

#include "../support/attention_oracle.hpp"
#include "../support/finite_difference.hpp"
#include "../support/random.hpp"

using namespace llmc_test;

TEST_CASE("reference attention: closed form", "[attention]") {
  for (const std::int64_t T : {1, 2, 3, 5, 7, 63, 65}) {
    for (const std::int64_t HS : {1, 5, 16}) {
      const attention_oracle o({2, T, 3, HS});
      std::vector<double> out(o.out.size()), lse(o.lse.size()), dqkv(o.dqkv.size());
      std::vector<double> bias(static_cast<std::size_t>(3 * 3 * HS)), sums = bias;
      const std::vector<double> qkv = widen(o.qkv), dout = widen(o.dout);
      llmc::reference::attention_forward(out.data(), lse.data(), qkv.data(), o.shape);
      llmc::reference::attention_backward(dqkv.data(), bias.data(), dout.data(), qkv.data(),
                                          out.data(), lse.data(), o.shape,
                                          llmc::accumulation::overwrite);
      INFO("T " << T << ", HS " << HS);
      check_close("out", out, o.out, {1e-13, 1e-13});
      check_close("lse", lse, o.lse, {1e-13, 1e-13});
      check_close("dqkv", dqkv, o.dqkv, {1e-12, 1e-12});
      for (std::size_t i = 0; i < dqkv.size(); ++i) sums[i % sums.size()] += o.dqkv[i];
      check_close("dqkv_bias", bias, sums, {1e-11, 1e-12});
    }
  }
}

TEST_CASE("reference attention: backward agrees with finite differences", "[attention]") {
  const llmc::attention_shape shape{2, 5, 2, 3};
  std::vector<double> qkv = widen(random_normal(2 * 5 * 3 * 6, 1));
  const std::vector<double> dout = widen(random_normal(2 * 5 * 6, 2));
  std::vector<double> out(dout.size()), lse(2 * 2 * 5), dqkv(qkv.size());
  const auto loss = [&] {
    llmc::reference::attention_forward(out.data(), lse.data(), qkv.data(), shape);
    return dot(out, dout);
  };
  loss();
  llmc::reference::attention_backward(dqkv.data(), static_cast<double*>(nullptr), dout.data(),
                                      qkv.data(), out.data(), lse.data(), shape,
                                      llmc::accumulation::overwrite);
  check_finite_differences("dqkv", qkv, dqkv, loss);
}
