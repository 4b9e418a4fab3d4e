/// @file
/// The test cases of the program into which every header is linked twice, with -rdc=true.
#include <llmc/error.hpp>

#include "../support/compare.hpp"
#include "../support/gpu.cuh"
#include "normalise.hpp"

TEST_CASE("a launcher compiled with -rdc=true refuses wrong arguments", "[linkage]") {
  CHECK_THROWS_AS(normalise_rdc({}, {1, 0}), llmc::invalid_argument);
}

TEST_CASE("a launcher compiled with -rdc=true works", "[linkage]") {
  LLMC_REQUIRE_GPU();
  llmc_test::check_close("out", normalise_rdc({-1.0f, 1.0f}, {1, 2}), std::vector<double>{-1, 1},
                         {1e-5, 0});
}
