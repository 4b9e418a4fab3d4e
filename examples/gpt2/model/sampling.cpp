#include "gpt2/model/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>

namespace gpt2_trainer {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// The logits without NaN, those of the text's tokens penalised.
std::vector<float> penalised(const std::vector<float>& logits,
                             const std::vector<std::int32_t>& text, double penalty) {
  const auto number = [&](std::size_t i) { return std::isnan(logits[i]) ? -infinity : logits[i]; };
  std::vector<float> result(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) result[i] = number(i);
  if (penalty == 1) return result;
  const auto p = static_cast<float>(penalty);
  for (const std::int32_t token : text) {
    const auto i = static_cast<std::size_t>(token);
    if (i < logits.size()) result[i] = number(i) < 0 ? number(i) * p : number(i) / p;
  }
  return result;
}

/// The tokens whose logits are at least the k-th greatest, the most likely first.
std::vector<std::int32_t> most_likely(const std::vector<float>& logits, std::size_t k) {
  float least = -infinity;
  if (k < logits.size()) {
    std::vector<float> parted = logits;
    const auto kth = parted.begin() + static_cast<std::ptrdiff_t>(k) - 1;
    std::nth_element(parted.begin(), kth, parted.end(), std::greater<>());
    least = *kth;
  }
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] >= least) tokens.push_back(static_cast<std::int32_t>(i));
  }
  std::sort(tokens.begin(), tokens.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  return tokens;
}

/// exp((logit - greatest) / temperature); where that is undefined, its limit.
double weight(float logit, float greatest, double temperature) {
  if (logit == greatest) return 1;
  if (std::isinf(greatest)) return 0;
  return std::exp((static_cast<double>(logit) - greatest) / temperature);
}

double total(const std::vector<likely_token>& tokens) {
  double sum = 0;
  for (const likely_token& each : tokens) sum += each.probability;
  return sum;
}

}  // namespace

std::vector<likely_token> next_tokens(const std::vector<float>& logits,
                                      const std::vector<std::int32_t>& text,
                                      const sampling_options& options) {
  const std::vector<float> numbers = penalised(logits, text, options.repetition_penalty);
  const auto first = std::max_element(numbers.begin(), numbers.end());
  if (options.temperature == 0 || *first == -infinity) {
    return {{static_cast<std::int32_t>(first - numbers.begin()), 1}};
  }
  const std::size_t k =
      options.top_k == 0 ? numbers.size() : static_cast<std::size_t>(options.top_k);
  std::vector<likely_token> tokens;
  for (const std::int32_t token : most_likely(numbers, k)) {
    const float logit = numbers[static_cast<std::size_t>(token)];
    tokens.push_back({token, weight(logit, *first, options.temperature)});
  }
  if (options.top_p < 1) {
    const double wanted = options.top_p * total(tokens);
    double before = 0;
    const auto end = std::find_if(tokens.begin(), tokens.end(), [&](const likely_token& each) {
      const bool enough = before >= wanted && before > 0;
      before += each.probability;
      return enough;
    });
    tokens.erase(end, tokens.end());
  }
  const double sum = total(tokens);
  for (likely_token& each : tokens) each.probability /= sum;
  return tokens;
}

std::int32_t sample_token(const std::vector<float>& logits, const std::vector<std::int32_t>& text,
                          const sampling_options& options, random_sequence& random) {
  const std::vector<likely_token> tokens = next_tokens(logits, text, options);
  const double drawn = random.uniform();
  double sum = 0;
  for (const likely_token& each : tokens) {
    sum += each.probability;
    if (drawn < sum) return each.token;
  }
  return tokens.front().token;  // only rounding comes here
}

}  // namespace gpt2_trainer
