#include <llmc/reference/encoder.hpp>

#include "../support/finite_difference.hpp"
#include "../support/random.hpp"

using namespace llmc_test;
using llmc::accumulation;

TEST_CASE("reference encoder: known values", "[encoder]") {
  // A table of three tokens, one of them never used, and two that are not in it.
  const llmc::encoder_shape shape{2, 3, 2, 3};
  const std::vector<double> wte{1, 2, 3, 4, 5, 6}, wpe{10, 20, 30, 40, 50, 60, 70, 80};
  const std::vector<std::int32_t> tokens{0, 2, 2, -1, 2, 3};
  std::vector<double> out(12);
  std::uint64_t out_of_range = 1;
  llmc::reference::encoder_forward(out.data(), &out_of_range, tokens.data(), wte.data(), wpe.data(),
                                   shape);
  check_close("out", out, std::vector<double>{11, 22, 35, 46, 55, 66, 10, 20, 35, 46, 50, 60},
              {0, 0});
  CHECK(out_of_range == 3);

  const std::vector<double> dout{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<double> dwte(6, -1), dwpe(8, 1);
  llmc::reference::encoder_backward(dwte.data(), dwpe.data(), tokens.data(), dout.data(), shape,
                                    accumulation::overwrite, accumulation::add);
  check_close("dwte", dwte, std::vector<double>{1, 2, 0, 0, 17, 20}, {0, 0});
  check_close("dwpe", dwpe, std::vector<double>{9, 11, 13, 15, 17, 19, 1, 1}, {0, 0});
}

TEST_CASE("reference encoder: backward agrees with finite differences", "[encoder]") {
  const llmc::encoder_shape shape{3, 4, 2, 5};
  const std::vector<std::int32_t> tokens = random_integers(12, 6, 1);  // 5 is out of range
  std::vector<double> wte = widen(random_normal(10, 2)), wpe = widen(random_normal(8, 3));
  const std::vector<double> dout = widen(random_normal(24, 4));
  std::vector<double> out(24), dwte(10), dwpe(8);
  const auto loss = [&] {
    llmc::reference::encoder_forward(out.data(), nullptr, tokens.data(), wte.data(), wpe.data(),
                                     shape);
    return dot(out, dout);
  };
  llmc::reference::encoder_backward(dwte.data(), dwpe.data(), tokens.data(), dout.data(), shape,
                                    accumulation::overwrite, accumulation::overwrite);
  check_finite_differences("dwte", wte, dwte, loss);
  check_finite_differences("dwpe", wpe, dwpe, loss);

  std::vector<double> twice = dwte;
  llmc::reference::encoder_backward(twice.data(), dwpe.data(), tokens.data(), dout.data(), shape,
                                    accumulation::add, accumulation::overwrite);
  for (double& d : dwte) d *= 2;
  check_close("added dwte", twice, dwte, {1e-12, 0});
}
