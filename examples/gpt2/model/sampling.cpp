#include "gpt2/model/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

namespace gpt2_trainer {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The k tokens of the greatest logits, the greatest first.
std::vector<std::int32_t> most_likely(const std::vector<float>& logits, std::size_t k) {
  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto before = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(k);
  std::partial_sort(tokens.begin(), end, tokens.end(), before);
  tokens.erase(end, tokens.end());
  return tokens;
}

/// exp((logit - greatest) / temperature); where that is undefined, its limit.
double weight(float logit, float greatest, double temperature) {
  if (logit == greatest) return 1;
  if (temperature == 0 || std::isinf(greatest)) return 0;
  return std::exp((static_cast<double>(logit) - greatest) / temperature);
}

}  // namespace

std::int32_t sample_token(const std::vector<float>& logits, sampling_options options,
                          random_sequence& random) {
  std::vector<float> numbers = logits;
  std::replace_if(
      numbers.begin(), numbers.end(), [](float x) { return std::isnan(x); }, -infinity);
  const std::size_t k = options.temperature == 0 ? 1
                        : options.top_k == 0     ? numbers.size()
                                                 : static_cast<std::size_t>(options.top_k);
  const std::vector<std::int32_t> tokens = most_likely(numbers, std::min(k, numbers.size()));
  const float greatest = numbers[static_cast<std::size_t>(tokens.front())];
  if (greatest == -infinity) return 0;

  std::vector<double> sums;
  double sum = 0;
  for (const std::int32_t token : tokens) {
    sum += weight(numbers[static_cast<std::size_t>(token)], greatest, options.temperature);
    sums.push_back(sum);
  }
  const auto drawn = std::upper_bound(sums.begin(), sums.end(), random.uniform() * sum);
  const std::ptrdiff_t place = std::min<std::ptrdiff_t>(
      drawn - sums.begin(), static_cast<std::ptrdiff_t>(tokens.size()) - 1);
  return tokens[static_cast<std::size_t>(place)];
}

std::vector<std::int32_t> generate(const next_logits& model,
                                   const std::vector<std::int32_t>& prompt, std::int64_t length,
                                   std::int64_t context, sampling_options options,
                                   random_sequence random) {
  std::vector<std::int32_t> tokens = prompt;
  for (std::int64_t i = 0; i < length; ++i) {
    const auto seen =
        std::min(static_cast<std::ptrdiff_t>(tokens.size()), static_cast<std::ptrdiff_t>(context));
    const std::vector<float> logits = model({tokens.end() - seen, tokens.end()});
    if (logits.empty()) break;
    tokens.push_back(sample_token(logits, options, random));
  }
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()));
  return tokens;
}

}  // namespace gpt2_trainer
