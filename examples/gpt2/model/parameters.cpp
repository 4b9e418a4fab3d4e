#include "gpt2/model/parameters.hpp"

#include <algorithm>
#include <cmath>

#include <llmc/reference/parallel.hpp>

#include "gpt2/model/random.hpp"

namespace gpt2_trainer {
namespace {

/// Uniform in (0, 1).
double uniform(std::uint64_t seed, std::uint64_t place) {
  return (static_cast<double>(mixed(mixed(seed) ^ place) >> 11) + 0.5) * 0x1p-53;
}

/// Normal with deviation 1, by Box and Muller.
double normal(std::uint64_t seed, std::uint64_t place) {
  const double radius = std::sqrt(-2 * std::log(uniform(seed, 2 * place)));
  return radius * std::cos(6.283185307179586 * uniform(seed, 2 * place + 1));
}

void fill_normal(std::vector<float>& values, const parameter_tensor& tensor, double deviation,
                 std::uint64_t seed) {
  llmc::reference::parallel_for(tensor.count - tensor.padding, [&](std::int64_t i) {
    const auto place = static_cast<std::size_t>(tensor.offset + i);
    values[place] = static_cast<float>(deviation * normal(seed, place));
  });
}

}  // namespace

parameter_layout::parameter_layout(const gpt2_config& config) : count_(0), layers_(config.layers) {
  const std::int64_t L = config.layers;
  const std::int64_t C = config.channels;
  const std::int64_t table_padding = (config.padded_vocabulary - config.vocabulary) * C;
  std::size_t next = 0;
  const auto add = [&](const char* name, std::int64_t layers, std::int64_t per_layer,
                       std::int64_t padding, bool decay, initial_value initial) {
    tensors_[next++] = {name, count_, layers * per_layer, per_layer, padding, decay, initial};
    count_ += layers * per_layer;
  };
  const auto matrix = [&](const char* name, std::int64_t layers, std::int64_t per_layer,
                          initial_value initial, std::int64_t padding = 0) {
    add(name, layers, per_layer, padding, true, initial);
  };
  const auto vector = [&](const char* name, std::int64_t layers, std::int64_t per_layer,
                          initial_value initial) {
    add(name, layers, per_layer, 0, false, initial);
  };

  matrix("wte", 1, config.padded_vocabulary * C, initial_value::normal, table_padding);
  matrix("wpe", 1, config.max_sequence * C, initial_value::normal);
  vector("ln1w", L, C, initial_value::one);
  vector("ln1b", L, C, initial_value::zero);
  matrix("qkvw", L, 3 * C * C, initial_value::normal);
  vector("qkvb", L, 3 * C, initial_value::zero);
  matrix("attprojw", L, C * C, initial_value::normal_scaled);
  vector("attprojb", L, C, initial_value::zero);
  vector("ln2w", L, C, initial_value::one);
  vector("ln2b", L, C, initial_value::zero);
  matrix("fcw", L, 4 * C * C, initial_value::normal);
  vector("fcb", L, 4 * C, initial_value::zero);
  matrix("fcprojw", L, 4 * C * C, initial_value::normal_scaled);
  vector("fcprojb", L, C, initial_value::zero);
  vector("lnfw", 1, C, initial_value::one);
  vector("lnfb", 1, C, initial_value::zero);
}

std::vector<float> initialise(const parameter_layout& layout, std::uint64_t seed) {
  constexpr double deviation = 0.02;
  std::vector<float> values(static_cast<std::size_t>(layout.count()), 0.0f);
  for (const parameter_tensor& tensor : layout) {
    switch (tensor.initial) {
      case initial_value::normal: fill_normal(values, tensor, deviation, seed); break;
      case initial_value::normal_scaled:
        fill_normal(values, tensor,
                    deviation / std::sqrt(2.0 * static_cast<double>(layout.layers())), seed);
        break;
      case initial_value::one: {
        const auto first = values.begin() + tensor.offset;
        std::fill(first, first + tensor.count, 1.0f);
        break;
      }
      case initial_value::zero: break;
    }
  }
  return values;
}

}  // namespace gpt2_trainer
