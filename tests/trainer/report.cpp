#include "report.hpp"

#include <cmath>

#include "../support/catch.hpp"
#include "train.hpp"

using namespace gpt2_trainer;

TEST_CASE("report: durations and large numbers", "[report]") {
  CHECK(clock_text(0) == "0:00");
  CHECK(clock_text(125.4) == "2:05");
  CHECK(clock_text(3600 + 23 * 60 + 45) == "1:23:45");
  CHECK(clock_text(std::nan("")) == "?");
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(1234567) == "1,234,567");
}

TEST_CASE("report: the ideal time is that of operations or of memory, whichever is longer",
          "[report]") {
  const gpt2_config config{8, 10, 128, 2, 1, 4};
  // Weights of matrices: 2 layers * 12 * 4 * 4 + 10 * 4 = 424; attention 2 * 4 * 8 = 64 a token.
  const double operations = 6.0 * (424 + 64) * 32;
  const double bytes = 4.0 * 424 * (7 + 3 * 2);
  const auto ideal = [&](double flops_per_second, double bytes_per_second) {
    return ideal_seconds(config, 32, 8, 2, {flops_per_second, bytes_per_second});
  };
  CHECK(std::abs(ideal(1, 1e9) - operations) < 1e-9 * operations);
  CHECK(std::abs(ideal(1e9, 1) - bytes) < 1e-9 * bytes);
  CHECK(ideal(0, 1) == 0);
  CHECK(ideal(1, 0) == 0);
}
