/// @file
/// Copies of llmc in one process: two shared libraries for different architectures.
#include <llmc/error.hpp>
#include <llmc/reference/layernorm.hpp>

#include "../support/compare.hpp"
#include "../support/gpu.cuh"
#include "../support/random.hpp"
#include "normalise.hpp"

using namespace llmc_test;

namespace {

using normalise_function = std::vector<float> (*)(std::vector<float>, llmc::row_shape);

void check_refusal(normalise_function normalise) {
  CHECK_THROWS_AS(normalise({}, {1, 0}), llmc::invalid_argument);
}

void check_result(normalise_function normalise) {
  const llmc::row_shape shape{3, 65};
  const std::vector<float> inp = random_normal(3 * 65, 1);
  const std::vector<double> weight(65, 1.0), bias(65, 0.0);
  std::vector<double> expected(inp.size());
  llmc::reference::layernorm_forward<double>(expected.data(), nullptr, nullptr, widen(inp).data(),
                                             weight.data(), bias.data(), shape, 1e-5);
  check_close("out", normalise(inp, shape), expected, sum_tolerance(65, 4.0));
}

}  // namespace

TEST_CASE("each copy of a launcher refuses wrong arguments", "[linkage]") {
  check_refusal(normalise_shared_75);
  check_refusal(normalise_shared_80);
}

TEST_CASE("an error of one shared library, which it refuses with, is caught in another",
          "[linkage]") {
  CHECK(catches_error_shared_80([] { normalise_shared_75({}, {1, 0}); }));
  CHECK(catches_error_shared_75([] { normalise_shared_80({}, {1, 0}); }));
}

TEST_CASE("two shared libraries for different architectures work in one process", "[linkage]") {
  LLMC_REQUIRE_GPU();
  check_result(normalise_shared_75);
  check_result(normalise_shared_80);
}
