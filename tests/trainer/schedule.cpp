#include "gpt2/run/schedule.hpp"

#include <cmath>

#include "../support/catch.hpp"

using namespace gpt2_trainer;

namespace {

constexpr double peak = 1e-3;
constexpr double minimum = 1e-4;

bool close(double rate, double wanted) {
  return std::abs(rate - wanted) <= 1e-14 * peak;
}

schedule make(schedule_kind kind, std::int64_t warmup, std::int64_t steps) {
  return {kind, peak, minimum, warmup, steps};
}

}  // namespace

TEST_CASE("schedule: warm-up rises in a straight line and reaches the peak", "[schedule]") {
  const auto kind = GENERATE(from_range(schedule_kinds));
  const schedule s = make(kind, 10, 100);
  for (int step = 1; step <= 10; ++step) {
    CHECK(close(learning_rate(s, step), peak * step / 10));
  }
  CHECK(learning_rate(s, 10) == peak);
}

TEST_CASE("schedule: from the peak to the minimum", "[schedule]") {
  const double middle = (peak + minimum) / 2;
  CHECK(close(learning_rate(make(schedule_kind::linear, 20, 120), 70), middle));
  CHECK(close(learning_rate(make(schedule_kind::cosine, 20, 120), 70), middle));
  // a quarter of the way: (1 + cos(pi / 4)) / 2
  CHECK(close(learning_rate(make(schedule_kind::cosine, 20, 120), 45),
              minimum + (peak - minimum) * 0.85355339059327376));
  CHECK(learning_rate(make(schedule_kind::constant, 20, 120), 119) == peak);
}

TEST_CASE("schedule: wsd keeps the peak for four fifths of the run", "[schedule]") {
  const schedule s = make(schedule_kind::wsd, 20, 500);
  CHECK(learning_rate(s, 21) == peak);
  CHECK(learning_rate(s, 400) == peak);
  CHECK(learning_rate(s, 401) < peak);
  // a quarter of the way down: 1 - sqrt(1 / 4)
  CHECK(close(learning_rate(s, 425), minimum + (peak - minimum) / 2));
  CHECK(learning_rate(s, 500) == minimum);
  // A warm-up that is longer leaves the rest to the decay.
  CHECK(close(learning_rate(make(schedule_kind::wsd, 460, 500), 470),
              minimum + (peak - minimum) / 2));
}

TEST_CASE("schedule: the peak at the end of the warm-up, the minimum after the last step",
          "[schedule]") {
  const auto kind = GENERATE(schedule_kind::cosine, schedule_kind::linear, schedule_kind::wsd);
  CHECK(learning_rate(make(kind, 16, 16), 16) == peak);
  CHECK(learning_rate(make(kind, 16, 16), 17) == minimum);
  CHECK(learning_rate(make(kind, 0, 16), 16) == minimum);
  CHECK(learning_rate(make(kind, 0, 16), 1000) == minimum);
  CHECK(learning_rate(make(kind, 0, 1), 1) == minimum);
}

TEST_CASE("schedule: finite and within its bounds for every step", "[schedule]") {
  const auto kind = GENERATE(from_range(schedule_kinds));
  for (const std::int64_t steps : {1, 2, 16}) {
    for (const std::int64_t warmup : {0, 1, 8, 16, 40}) {
      for (std::int64_t step = -1; step <= 50; ++step) {
        const double rate = learning_rate(make(kind, warmup, steps), step);
        INFO("steps " << steps << ", warmup " << warmup << ", step " << step);
        CHECK((rate >= 0 && rate <= peak));
      }
    }
  }
}
