/// @file
/// Losses computed from a model's logits, one row at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "../trainer/model_support.hpp"
#include "gpt2/machine/reference_backend.hpp"

namespace llmc_test {

/// A small model of double precision on the CPU, for up to `batch` rows of its context.
class small_network {
 public:
  small_network(std::int64_t context, std::int64_t vocabulary, std::int64_t batch)
      : model({context, vocabulary, gpt2_trainer::padded(vocabulary), 2, 2, 12}, *machine_, batch,
              context) {
    const std::vector<float> values = strong_parameters(model.layout(), 5);
    model.set_parameters({values.begin(), values.end()});
  }

 private:
  std::unique_ptr<gpt2_trainer::backend<double>> machine_ =
      gpt2_trainer::make_reference_backend<double>();

 public:
  gpt2<double> model;
};

/// The loss of the token at `place`, predicted from the tokens before it.
inline double loss_at(gpt2<double>& model, const std::vector<std::int32_t>& tokens,
                      std::size_t place) {
  const auto before = static_cast<std::int64_t>(place);
  const std::vector<double> logits = model.logits_at(tokens.data(), before, before - 1);
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - most);
  return most + std::log(sum) - logits[static_cast<std::size_t>(tokens[place])];
}

}  // namespace llmc_test
