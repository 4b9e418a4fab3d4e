/// @file
/// What the tests of the whole model share: parameters and batches, and comparison tensor by
/// tensor.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "../support/compare.hpp"
#include "../support/random.hpp"
#include "gpt2/model/gpt2.hpp"

namespace llmc_test {

using gpt2_trainer::gpt2;
using gpt2_trainer::gpt2_config;
using gpt2_trainer::parameter_layout;
using gpt2_trainer::parameter_tensor;

/// Parameters none of which is special: biases are not 0, weights of layernorms are not 1, and
/// gradients are far from 0. Only the padding is 0.
inline std::vector<float> strong_parameters(const parameter_layout& layout, std::uint32_t seed,
                                            double deviation = 0.25) {
  std::vector<float> values;
  for (const parameter_tensor& tensor : layout) {
    const bool one = tensor.initial == gpt2_trainer::initial_value::one;
    const auto part = random_normal(tensor.count, seed++, deviation, one ? 1.0 : 0.0);
    values.insert(values.end(), part.begin(), part.end());
    std::fill(values.end() - tensor.padding, values.end(), 0.0f);
  }
  return values;
}

/// Random tokens and the tokens after them.
struct batch {
  std::int64_t b;
  std::int64_t t;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;

  batch(std::int64_t rows, std::int64_t length, std::int64_t vocabulary, std::uint32_t seed)
      : b(rows),
        t(length),
        tokens(random_integers(rows * length, vocabulary, seed)),
        targets(random_integers(rows * length, vocabulary, seed + 1)) {}
};

template <class Real>
double forward_backward(gpt2<Real>& model, const batch& x) {
  model.forward_backward(x.tokens.data(), x.targets.data(), x.b, x.t, 0, 1);
  return model.loss();
}

template <class Real>
double mean_loss(gpt2<Real>& model, const batch& x) {
  const auto loss = model.evaluate(x.tokens.data(), x.targets.data(), x.b, x.t);
  return loss.sum / static_cast<double>(loss.tokens);
}

/// Compares what is laid out as the parameters, one tensor at a time; the tolerance is relative to
/// the tensor's largest element.
template <class Actual, class Expected>
void check_tensors(const parameter_layout& layout, const std::vector<Actual>& actual,
                   const std::vector<Expected>& expected, double relative_to_largest) {
  REQUIRE(actual.size() == static_cast<std::size_t>(layout.count()));
  REQUIRE(expected.size() == actual.size());
  for (const parameter_tensor& tensor : layout) {
    const auto part = [&](const auto& all) {
      const auto first = all.begin() + tensor.offset;
      return std::vector<double>(first, first + tensor.count);
    };
    const std::vector<double> wanted = part(expected);
    double largest = 0;
    for (const double value : wanted) largest = std::max(largest, std::fabs(value));
    check_close(tensor.name, part(actual), wanted, {relative_to_largest * largest, 0});
  }
}

}  // namespace llmc_test
