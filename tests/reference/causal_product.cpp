#include <llmc/reference/causal_product.hpp>

#include "../support/compare.hpp"
#include "../support/random.hpp"

using namespace llmc_test;

TEST_CASE("reference causal product: known values", "[causal_product]") {
  // Two heads of two positions; above the diagonal there is 0 and not 1 * 5 + 2 * 6.
  const std::vector<double> q{1, 2, 3, 4, 1, 0, 0, 1}, k{3, 4, 5, 6, 7, 8, 9, 10};
  std::vector<double> out(8);
  llmc::reference::causal_product(out.data(), q.data(), k.data(), {1, 2, 2, 2});
  check_close("out", out, std::vector<double>{11, 0, 25, 39, 7, 0, 8, 10}, {0, 0});
}

TEST_CASE("reference causal product: sums in any number of features", "[causal_product]") {
  const std::vector<double> ones(3 * 19, 1.0);
  std::vector<double> out(9);
  llmc::reference::causal_product(out.data(), ones.data(), ones.data(), {1, 3, 1, 19});
  check_close("out", out, std::vector<double>{19, 0, 0, 19, 19, 0, 19, 19, 19}, {0, 0});
}
