#include "gpt2/files/finite.hpp"

#include <algorithm>
#include <cmath>

namespace gpt2_trainer {

std::string non_finite_text(const std::string& what, const std::vector<float>& values) {
  const auto is_bad = [](float value) { return !std::isfinite(value); };
  const auto first = std::find_if(values.begin(), values.end(), is_bad);
  if (first == values.end()) return "";
  const auto count = std::count_if(first, values.end(), is_bad);
  return what + " must be finite, got " + std::to_string(*first) + " at place " +
         std::to_string(first - values.begin()) + " (" + std::to_string(count) + " of " +
         std::to_string(values.size()) + " are not finite)";
}

}  // namespace gpt2_trainer
