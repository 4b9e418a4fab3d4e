#include <llmc/reference/crossentropy.hpp>

#include <limits>

#include "../support/finite_difference.hpp"
#include "../support/random.hpp"

using namespace llmc_test;

TEST_CASE("reference crossentropy: known values", "[crossentropy]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> logits{0, 0, 0, 0, -1e6, 0, 0, 0, 0, 0, 0, -infinity};
  const std::vector<std::int32_t> targets{2, 0, 3};
  std::vector<double> losses(3);
  llmc::reference::crossentropy_forward(losses.data(), nullptr, logits.data(), targets.data(),
                                        {3, 4, 4});
  check_close("losses", losses, std::vector<double>{std::log(4.0), 1e6 + std::log(3.0), infinity},
              {1e-9, 0});
}

TEST_CASE("reference crossentropy: what takes no part", "[crossentropy]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> logits{nan, nan, nan, nan, nan, nan, 1, 1, nan};
  const std::vector<std::int32_t> targets{llmc::ignored_target, 2, 1};
  const std::vector<double> dlosses{1, 1, 2};
  std::vector<double> losses(3), dlogits(9, nan);
  std::uint64_t out_of_range = 1;
  llmc::reference::crossentropy_forward(losses.data(), &out_of_range, logits.data(), targets.data(),
                                        {3, 2, 3});
  llmc::reference::crossentropy_backward(dlogits.data(), dlosses.data(), logits.data(),
                                         targets.data(), {3, 2, 3});
  CHECK(out_of_range == 2);
  check_close("losses", losses, std::vector<double>{0, 0, std::log(2.0)}, {1e-15, 0});
  check_close("dlogits", dlogits, std::vector<double>{0, 0, 0, 0, 0, 0, 1, -1, 0}, {0, 0});
}

TEST_CASE("reference crossentropy: backward agrees with finite differences", "[crossentropy]") {
  const llmc::classifier_shape shape{4, 5, 7};
  std::vector<double> logits = widen(random_normal(28, 1));
  const std::vector<double> dlosses = widen(random_normal(4, 2));
  const std::vector<std::int32_t> targets{4, llmc::ignored_target, 0, 5};
  std::vector<double> losses(4), dlogits(28);
  const auto loss = [&] {
    llmc::reference::crossentropy_forward(losses.data(), nullptr, logits.data(), targets.data(),
                                          shape);
    return dot(losses, dlosses);
  };
  llmc::reference::crossentropy_backward(dlogits.data(), dlosses.data(), logits.data(),
                                         targets.data(), shape);
  check_finite_differences("dlogits", logits, dlogits, loss);
}
