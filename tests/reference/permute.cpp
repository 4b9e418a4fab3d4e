#include <llmc/reference/permute.hpp>

#include <numeric>

#include "../support/finite_difference.hpp"
#include "../support/random.hpp"

using namespace llmc_test;

TEST_CASE("reference permute_heads: known values", "[permute]") {
  // One batch entry, two positions, two parts, two heads of one feature.
  const std::vector<double> inp{0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<double> out(8);
  llmc::reference::permute_heads(out.data(), inp.data(), {1, 2, 2, 1}, 2);
  check_close("out", out, std::vector<double>{0, 4, 1, 5, 2, 6, 3, 7}, {0, 0});
}

TEST_CASE("reference unpermute_heads: undoes permute_heads", "[permute]") {
  const llmc::attention_shape shape{2, 5, 3, 4};
  std::vector<double> inp(3 * 2 * 5 * 3 * 4), permuted(inp.size()), out(inp.size());
  std::iota(inp.begin(), inp.end(), 0.0);
  llmc::reference::permute_heads(permuted.data(), inp.data(), shape, 3);
  CHECK(permuted != inp);
  llmc::reference::unpermute_heads(out.data(), permuted.data(), shape, 3);
  CHECK(out == inp);
}

TEST_CASE("reference permute_heads and unpermute_heads: each is the other's gradient",
          "[permute]") {
  const llmc::attention_shape shape{2, 3, 2, 2};
  std::vector<double> inp = widen(random_normal(3 * 24, 1));
  const std::vector<double> dout = widen(random_normal(3 * 24, 2));
  std::vector<double> out(inp.size()), dinp(inp.size());
  llmc::reference::unpermute_heads(dinp.data(), dout.data(), shape, 3);
  check_finite_differences("dinp of permute_heads", inp, dinp, [&] {
    llmc::reference::permute_heads(out.data(), inp.data(), shape, 3);
    return dot(out, dout);
  });
  llmc::reference::permute_heads(dinp.data(), dout.data(), shape, 3);
  check_finite_differences("dinp of unpermute_heads", inp, dinp, [&] {
    llmc::reference::unpermute_heads(out.data(), inp.data(), shape, 3);
    return dot(out, dout);
  });
}
