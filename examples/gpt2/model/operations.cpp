#include "gpt2/model/operations.hpp"

#include <algorithm>

namespace gpt2_trainer {
namespace {

double matrix_weights(const gpt2_config& c) {
  return static_cast<double>(c.layers * 12 * c.channels * c.channels + c.vocabulary * c.channels);
}

}  // namespace

double model_operations(const gpt2_config& c, std::int64_t tokens, std::int64_t sequence) {
  // Each weight of a matrix takes part in a product of 2 operations a token forward and twice that
  // backward. A token attends to T / 2 others on average, with two products per layer.
  const auto attention = static_cast<double>(c.layers * c.channels * sequence);
  return 6 * (matrix_weights(c) + attention) * static_cast<double>(tokens);
}

double ideal_seconds(const gpt2_config& c, std::int64_t tokens, std::int64_t sequence,
                     std::int64_t micro_batches, const peak_rates& peak) {
  if (peak.flops_per_second <= 0 || peak.bytes_per_second <= 0) return 0;
  const double operations = model_operations(c, tokens, sequence);
  // AdamW reads parameters, gradients and both moments and writes all but the gradients; every
  // micro-batch reads the parameters twice and writes their gradients.
  const double bytes =
      sizeof(float) * matrix_weights(c) * (7 + 3 * static_cast<double>(micro_batches));
  return std::max(operations / peak.flops_per_second, bytes / peak.bytes_per_second);
}

}  // namespace gpt2_trainer
