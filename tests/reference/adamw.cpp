#include <llmc/reference/adamw.hpp>

#include <vector>

#include "../support/adamw_oracle.hpp"
#include "../support/compare.hpp"

using namespace llmc_test;
using llmc::adamw_parameters;
using llmc::clip_state;

TEST_CASE("reference adamw: a constant gradient", "[adamw]") {
  const float weight_decay = GENERATE(0.0f, 0.1f);
  const adamw_parameters parameters{0.9f, 0.999f, 1e-8f, weight_decay};
  const float learning_rate = 0.01f;
  const std::vector<double> start{1, -2, 0.5}, grads{0.25, -3, 1e-4};
  std::vector<double> params = start, m(3, 0.0), v(3, 0.0), expected(3);
  for (std::int64_t step = 1; step <= 100; ++step) {
    llmc::reference::adamw_update(params.data(), m.data(), v.data(), grads.data(), 3, parameters,
                                  &learning_rate, &step, nullptr);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    expected[i] = adamw_constant_gradient(start[i], grads[i], 100, learning_rate,
                                          parameters.epsilon, weight_decay);
  }
  check_close("params", params, expected, {1e-12, 1e-12});
}

TEST_CASE("reference adamw: the moments, with clipped gradients", "[adamw]") {
  const adamw_parameters parameters{0.5f, 0.75f, 0.0f, 0.0f};
  const float learning_rate = 1.0f;
  const std::int64_t step = 2;
  const clip_state clip{4.0f, 0.5f, 1};
  double param = 1, m = 4, v = 8;
  const double grad = 8;
  llmc::reference::adamw_update(&param, &m, &v, &grad, 1, parameters, &learning_rate, &step, &clip);
  // The gradient used is 4: m = (4 + 4) / 2, v = 3/4 * 8 + 1/4 * 16; corrections 3/4 and 7/16.
  CHECK(m == 4.0);
  CHECK(v == 10.0);
  check_close("param", std::vector<double>{param},
              std::vector<double>{1 - (4 / 0.75) / std::sqrt(10 / 0.4375)}, {1e-14, 0});
}

TEST_CASE("reference adamw: a norm that is not finite changes nothing", "[adamw]") {
  const float learning_rate = 1.0f;
  const std::int64_t step = 1;
  const clip_state clip{0.0f, 1.0f, 0};
  double param = 1, m = 2, v = 3;
  const double grad = 4;
  llmc::reference::adamw_update(&param, &m, &v, &grad, 1, {0.9f, 0.999f, 1e-8f, 0.1f},
                                &learning_rate, &step, &clip);
  CHECK(param == 1.0);
  CHECK(m == 2.0);
  CHECK(v == 3.0);
}

TEST_CASE("reference adamw: refuses parameters out of range", "[adamw]") {
  const float learning_rate = 1.0f;
  const std::int64_t step = 1;
  double x = 1;
  const auto update = [&](adamw_parameters parameters) {
    llmc::reference::adamw_update(&x, &x, &x, &x, 1, parameters, &learning_rate, &step, nullptr);
  };
  CHECK_THROWS_WITH(update({1.0f, 0.999f, 1e-8f, 0.0f}),
                    "llmc::reference::adamw_update: beta1 must be at least 0 and less than 1, got "
                    "1.000000");
  CHECK_THROWS_AS(update({0.9f, -0.1f, 1e-8f, 0.0f}), llmc::invalid_argument);
  CHECK_THROWS_AS(update({0.9f, 0.999f, -1.0f, 0.0f}), llmc::invalid_argument);
  CHECK_THROWS_AS(update({0.9f, 0.999f, 1e-8f, std::nanf("")}), llmc::invalid_argument);
}
