#include <llmc/reference/residual.hpp>

#include "../support/compare.hpp"

using namespace llmc_test;
using llmc::accumulation;

TEST_CASE("reference residual: known values", "[residual]") {
  std::vector<double> inp1{1, 2, 3};
  const std::vector<double> inp2{10, 20, -30};
  llmc::reference::residual_forward(inp1.data(), inp1.data(), inp2.data(), 3);
  check_close("out over inp1", inp1, std::vector<double>{11, 22, -27}, {0, 0});
}

TEST_CASE("reference residual: backward overwrites or adds", "[residual]") {
  std::vector<double> dinp1{1, 1}, dinp2{2, 2}, dout{3, 4};
  llmc::reference::residual_backward(dinp1.data(), dinp2.data(), dout.data(), 2, accumulation::add);
  check_close("added dinp1", dinp1, std::vector<double>{4, 5}, {0, 0});
  check_close("added dinp2", dinp2, std::vector<double>{5, 6}, {0, 0});
  llmc::reference::residual_backward(dinp1.data(), dout.data(), dout.data(), 2,
                                     accumulation::overwrite);
  check_close("overwritten dinp1", dinp1, std::vector<double>{3, 4}, {0, 0});
  check_close("dinp2 over dout", dout, std::vector<double>{3, 4}, {0, 0});
}
