/// @file
/// What the operations that are matrix products share: shapes, variants, and how exact they are.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <llmc/types.hpp>

#include "registry/families/rows.hpp"
#include "registry/registry.hpp"

namespace llmc_registry {

using llmc::matmul_shape;

/// Part of matmul(), in a file of its own because the kernels take long to compile.
std::vector<operation> matmul_gradients();

/// cuBLAS and plain rungs may add all terms one after another. A partial sum of k normal numbers is
/// about sqrt(k) and is rounded to a fifth of an eps of that, so all roundings together are about
/// eps / 7 * terms. The worst of many million sums is within seven times that.
inline tolerance product_tolerance(std::int64_t terms) {
  const tolerance by_tree = llmc_test::sum_tolerance(terms, 4);
  const double one_by_one = std::numeric_limits<float>::epsilon() * static_cast<double>(terms);
  return {std::max(by_tree.absolute, one_by_one), by_tree.relative};
}

/// For precisions that round each factor to 10 bits of mantissa. The errors add up like a random
/// walk.
inline tolerance rounded_product_tolerance(std::int64_t terms) {
  const double ulp = 1.0 / 1024;
  return {4 * ulp * (2 + std::sqrt(static_cast<double>(terms))), ulp};
}

inline tolerance widened(tolerance t, double factor) {
  return {factor * t.absolute, factor * t.relative};
}

inline std::vector<parameter> matmul_parameters(std::int64_t channels, std::int64_t out_channels) {
  return {{"rows", gpt2_rows, few_rows},
          {"channels", channels, 4096},
          {"out_channels", out_channels, 3073}};
}

inline std::vector<extents> awkward_products() {
  std::vector<extents> shapes;
  for (const auto& [rows, channels, out_channels] : std::initializer_list<matmul_shape>{
           {1, 1, 1}, {3, 33, 5}, {33, 3, 127}, {129, 127, 65}, {64, 768, 256}, {200, 100, 36}}) {
    shapes.push_back({{"rows", rows}, {"channels", channels}, {"out_channels", out_channels}});
  }
  return shapes;
}

inline matmul_shape matmul_shape_of(const extents& e) {
  return {e.at("rows"), e.at("channels"), e.at("out_channels")};
}

}  // namespace llmc_registry
