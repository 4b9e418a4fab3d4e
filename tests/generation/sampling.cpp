#include "gpt2/model/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
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
    ++counts[static_cast<std::size_t>(sample_token(logits, {}, options, random))];
  }
  return counts;
}

/// The probability of each token, from the words of sampling.hpp one by one.
std::vector<double> defined(const std::vector<float>& logits, const std::vector<std::int32_t>& text,
                            const sampling_options& o) {
  const std::size_t count = logits.size();
  std::vector<double> x(logits.begin(), logits.end());
  for (std::size_t i = 0; i < count; ++i) {
    if (std::count(text.begin(), text.end(), static_cast<std::int32_t>(i)) == 0) continue;
    x[i] = x[i] < 0 ? x[i] * o.repetition_penalty : x[i] / o.repetition_penalty;
  }
  for (double& each : x) each /= o.temperature;
  if (o.top_k > 0) {
    std::vector<double> sorted = x;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const double least = sorted[std::min(static_cast<std::size_t>(o.top_k), count) - 1];
    for (double& each : x) each = each < least ? -infinity : each;
  }
  const auto softmax = [](const std::vector<double>& from) {
    double sum = 0;
    for (const double each : from) sum += std::exp(each);
    std::vector<double> result;
    for (const double each : from) result.push_back(std::exp(each) / sum);
    return result;
  };
  const std::vector<double> p = softmax(x);
  std::vector<double> kept = x;
  for (std::size_t i = 0; i < count && o.top_p < 1; ++i) {
    double before = 0;
    for (std::size_t j = 0; j < count; ++j) {
      if (x[j] > x[i] || (x[j] == x[i] && j < i)) before += p[j];
    }
    if (before >= o.top_p && before > 0) kept[i] = -infinity;
  }
  return softmax(kept);
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
  const std::vector<int> counts = histogram({1, 0, 2, 0.5f}, {100, 2}, 1000);
  CHECK((counts[0] > 300 && counts[2] > 300));
  CHECK((counts[1] == 0 && counts[3] == 0));
  CHECK(histogram({1, 1, 2, 0}, {100, 2}, 1000)[1] > 200);  // as likely as the last of them
  CHECK(histogram({1, 2}, {1, 99}, 1000)[0] > 100);         // more than there are: all
}

TEST_CASE("sampling: logits that are no numbers", "[sampling]") {
  CHECK(histogram({not_a_number, 0, -infinity}, {1, 0}, 100)[1] == 100);
  CHECK(histogram({not_a_number, not_a_number}, {1, 0}, 100)[0] == 100);
  CHECK(histogram({-infinity, -infinity}, {1, 0}, 100)[0] == 100);
  const std::vector<int> counts = histogram({infinity, 5, infinity}, {1, 0}, 1000);
  CHECK((counts[0] > 400 && counts[1] == 0 && counts[2] > 400));
  CHECK(histogram({3e38f, -3e38f}, {1, 0}, 100)[0] == 100);
}

TEST_CASE("sampling: the distribution is the one that is defined", "[sampling]") {
  random_sequence random(3);
  const std::vector<double> temperatures{0.25, 1, 1.75};
  const std::vector<std::int64_t> ks{0, 1, 4, 100};
  const std::vector<double> ps{0, 0.37, 0.93, 1};
  const std::vector<double> penalties{0.5, 1, 2};
  for (int i = 0; i < 2000; ++i) {
    const auto any = [&](const auto& values) { return values[random.below(values.size())]; };
    const sampling_options options{any(temperatures), any(ks), any(ps), any(penalties)};
    std::vector<float> logits(1 + random.below(20));
    for (float& logit : logits) {  // quarters, so that some are equal and penalties are exact
      logit = static_cast<float>(random.below(24)) / 4 - 3;
    }
    std::vector<std::int32_t> text(random.below(8));
    for (std::int32_t& token : text) token = static_cast<std::int32_t>(random.below(20));
    const std::vector<double> wanted = defined(logits, text, options);
    std::vector<double> got(logits.size(), 0.0);
    for (const likely_token& each : next_tokens(logits, text, options)) {
      got[static_cast<std::size_t>(each.token)] = each.probability;
    }
    INFO("T " << options.temperature << ", k " << options.top_k << ", p " << options.top_p
              << ", penalty " << options.repetition_penalty);
    for (std::size_t j = 0; j < logits.size(); ++j) REQUIRE(std::abs(got[j] - wanted[j]) < 1e-12);
  }
}

TEST_CASE("sampling: a token is penalised once, however often it was there", "[sampling]") {
  const auto most_likely = [](const std::vector<float>& logits, double penalty) {
    return next_tokens(logits, {0, 0, 0}, {0, 0, 1, penalty}).front().token;
  };
  CHECK(most_likely({3, 2}, 1.25) == 0);
  CHECK(most_likely({3, 2}, 1.75) == 1);
  CHECK(most_likely({-1, -1.5f}, 2) == 1);
  CHECK(most_likely({not_a_number, -infinity}, 2) == 0);
}
