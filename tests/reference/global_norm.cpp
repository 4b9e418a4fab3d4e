#include <llmc/reference/global_norm.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "../support/catch.hpp"

using llmc::clip_state;

namespace {

clip_state norm_of(const std::vector<float>& grads, float max_norm) {
  clip_state result{};
  llmc::reference::global_norm(&result, grads.data(), static_cast<std::int64_t>(grads.size()),
                               max_norm);
  return result;
}

}  // namespace

TEST_CASE("reference global_norm: known values", "[global_norm]") {
  const std::vector<float> grads{3, 0, -4};
  for (const float max_norm : {0.0f, -1.0f, 5.0f, 6.0f, std::numeric_limits<float>::infinity()}) {
    const clip_state all = norm_of(grads, max_norm);
    CHECK(all.norm == 5.0f);
    CHECK(all.scale == 1.0f);
    CHECK(all.finite == 1);
  }
  CHECK(norm_of(grads, 1.0f).scale == 0.2f);
  CHECK(norm_of({}, 1.0f).norm == 0.0f);
  CHECK(norm_of({}, 1.0f).scale == 1.0f);
  CHECK(norm_of({}, 1.0f).finite == 1);
}

TEST_CASE("reference global_norm: tells what is not finite", "[global_norm]") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {inf, -inf, std::nanf("")}) {
    const clip_state result = norm_of({1, bad, 1}, 1.0f);
    CHECK(!std::isfinite(result.norm));
    CHECK(result.scale == 0.0f);
    CHECK(result.finite == 0);
  }
  CHECK(norm_of({1e30f, 1e30f}, 1.0f).finite == 1);
  CHECK(norm_of({3e38f, 3e38f}, 1.0f).finite == 0);
}
