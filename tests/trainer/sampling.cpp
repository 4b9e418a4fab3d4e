#include "gpt2/model/sampling.hpp"

#include <cmath>
#include <limits>

#include "../support/catch.hpp"

using namespace gpt2_trainer;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// How often each token is drawn in `draws` draws.
std::vector<int> histogram(const std::vector<float>& logits, sampling_options options, int draws) {
  random_sequence random(7);
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) {
    ++counts[static_cast<std::size_t>(sample_token(logits, options, random))];
  }
  return counts;
}

}  // namespace

TEST_CASE("sampling: tokens are drawn as often as softmax says", "[sampling]") {
  const int draws = 100000;
  const std::vector<float> logits{0.0f, std::log(2.0f), std::log(5.0f)};
  const std::vector<int> counts = histogram(logits, {1.0, 0}, draws);
  // five standard deviations of the most variable count
  const double margin = 5 * std::sqrt(draws * 0.25);
  CHECK(std::abs(counts[0] - draws * 0.125) < margin);
  CHECK(std::abs(counts[1] - draws * 0.25) < margin);
  CHECK(std::abs(counts[2] - draws * 0.625) < margin);
}

TEST_CASE("sampling: temperature sharpens", "[sampling]") {
  const int draws = 100000;
  const std::vector<float> logits{0.0f, std::log(2.0f)};
  CHECK(std::abs(histogram(logits, {0.5, 0}, draws)[1] - draws * 0.8) < 800);
  CHECK(histogram(logits, {1e-6, 0}, 100)[1] == 100);
}

TEST_CASE("sampling: temperature 0 takes the first of the most likely tokens", "[sampling]") {
  CHECK(histogram({1, 3, 2, 3}, {0, 0}, 100) == std::vector<int>{0, 100, 0, 0});
}

TEST_CASE("sampling: only the k most likely tokens take part", "[sampling]") {
  const std::vector<int> counts = histogram({1, 1, 2, 1}, {100, 2}, 1000);
  CHECK((counts[0] > 300 && counts[2] > 300));
  CHECK((counts[1] == 0 && counts[3] == 0));
  CHECK(histogram({1, 2}, {1, 99}, 1000)[0] > 100);  // more than there are: all
}

TEST_CASE("sampling: logits that are no numbers", "[sampling]") {
  CHECK(histogram({not_a_number, 0, -infinity}, {1, 0}, 100)[1] == 100);
  CHECK(histogram({not_a_number, not_a_number}, {1, 0}, 100)[0] == 100);
  CHECK(histogram({-infinity, -infinity}, {1, 0}, 100)[0] == 100);
  const std::vector<int> counts = histogram({infinity, 5, infinity}, {1, 0}, 1000);
  CHECK((counts[0] > 400 && counts[1] == 0 && counts[2] > 400));
  CHECK(histogram({3e38f, -3e38f}, {1, 0}, 100)[0] == 100);
}

TEST_CASE("sampling: a text goes on from what the model last saw", "[sampling]") {
  std::vector<std::vector<std::int32_t>> seen;
  const auto model = [&](const std::vector<std::int32_t>& tokens) {
    seen.push_back(tokens);
    std::vector<float> logits(8, 0.0f);
    logits[static_cast<std::size_t>(tokens.back() + 1)] = 50;
    return logits;
  };
  CHECK(generate(model, {1, 2}, 4, 3, {0, 0}, random_sequence(1)) ==
        std::vector<std::int32_t>{3, 4, 5, 6});
  CHECK(seen == std::vector<std::vector<std::int32_t>>{{1, 2}, {1, 2, 3}, {2, 3, 4}, {3, 4, 5}});
}

TEST_CASE("sampling: a function of the seed", "[sampling]") {
  const auto model = [](const std::vector<std::int32_t>&) { return std::vector<float>(50, 0.0f); };
  const auto draw = [&](int seed) {
    return generate(model, {0}, 40, 8, {1, 0}, random_sequence(seed));
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
}
