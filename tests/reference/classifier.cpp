#include <llmc/reference/classifier.hpp>
#include <llmc/reference/crossentropy.hpp>

#include "../support/compare.hpp"
#include "../support/random.hpp"

using namespace llmc_test;

TEST_CASE("reference classifier: the same as crossentropy forward and backward", "[classifier]") {
  const llmc::classifier_shape shape{5, 6, 8};
  const double dloss = 0.3;
  const std::vector<double> logits = widen(random_normal(40, 1));
  const std::vector<double> dlosses(5, dloss);
  const std::vector<std::int32_t> targets{5, llmc::ignored_target, 0, 6, -1};
  std::vector<double> losses(5), expected_losses(5), dlogits = logits, expected_dlogits(40);
  std::uint64_t out_of_range = 0, expected_out_of_range = 0;
  llmc::reference::crossentropy_forward(expected_losses.data(), &expected_out_of_range,
                                        logits.data(), targets.data(), shape);
  llmc::reference::crossentropy_backward(expected_dlogits.data(), dlosses.data(), logits.data(),
                                         targets.data(), shape);
  llmc::reference::classifier_forward_backward(dlogits.data(), losses.data(), &out_of_range,
                                               targets.data(), shape, dloss);
  check_close("losses", losses, expected_losses, {0, 0});
  check_close("dlogits", dlogits, expected_dlogits, {0, 0});
  CHECK(out_of_range == expected_out_of_range);
  CHECK(out_of_range == 2);
}
