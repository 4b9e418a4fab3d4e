#include "gpt2/machine/cuda/cuda_rates.hpp"

#include <algorithm>
#include <cstdint>

#include "registry/measure/ceilings.hpp"

namespace gpt2_trainer {
namespace {

using llmc::precision;
using llmc_registry::stopwatch;

/// Useful operations a second. Where a precision makes one product of several on tensor cores, they
/// count once. A card without fast tensor cores computes that precision as ieee.
double product_flops(const stopwatch& watch, precision arithmetic) {
  constexpr double flops_per_teraflop = 1e12;
  const auto rate = [&](precision p) {
    return flops_per_teraflop * llmc_registry::product_rate(watch, p);
  };
  const int products = llmc::facts_of(arithmetic).products;
  if (products == 1) return rate(arithmetic);
  return std::max(rate(precision::tf32) / products, rate(precision::ieee));
}

}  // namespace

measured_rates measure_card(precision products, precision attention) {
  constexpr int repeats = 11;
  constexpr std::int64_t copied_bytes = std::int64_t{1} << 29;
  constexpr double bytes_per_gigabyte = 1e9;
  const stopwatch watch(repeats);
  measured_rates rates;
  rates.bytes_per_second = bytes_per_gigabyte * llmc_registry::copy_rate(watch, copied_bytes);
  rates.product_flops_per_second = product_flops(watch, products);
  rates.attention_flops_per_second =
      attention == products ? rates.product_flops_per_second : product_flops(watch, attention);
  return rates;
}

}  // namespace gpt2_trainer
