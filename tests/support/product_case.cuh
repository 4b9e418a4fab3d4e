/// @file
/// One matrix product in any layout with any epilogue, and what it should give.
#pragma once

#include <llmc/detail/matmul/product.hpp>
#include <llmc/reference/gelu.hpp>
#include <llmc/reference/parallel.hpp>
#include <llmc/types.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "compare.hpp"
#include "gpu.cuh"
#include "random.hpp"

namespace llmc_test {

/// The tolerance of a sum over `terms` products of normal numbers. In a precision that is not exact
/// each factor has 10 bits of mantissa, and the errors add up like a random walk.
inline tolerance product_tolerance(std::int64_t terms, llmc::precision arithmetic) {
  if (llmc::facts_of(arithmetic).is_exact()) return sum_tolerance(terms, 4.0);
  const double ulp = 1.0 / 1024;
  return {4 * ulp * (2 + std::sqrt(static_cast<double>(terms))), ulp};
}

/// A launcher's scratch, as large as the buffer.
inline llmc::workspace scratch_in(const buffer<unsigned char>& memory) {
  return {memory.get(), memory.size()};
}

/// The products of a linear layer.
enum class product_layout { forward, input_gradient, weight_gradient };

inline const char* to_string(product_layout layout) {
  switch (layout) {
    case product_layout::forward: return "forward";
    case product_layout::input_gradient: return "input gradient";
    case product_layout::weight_gradient: return "weight gradient";
  }
  return "unknown";
}

struct product_size {
  std::int64_t rows, columns, inner;
};

/// What the epilogue does; `in_place` adds to what out holds.
struct product_parts {
  bool bias = false;
  bool gelu = false;
  bool gelu_gradient = false;
  bool residual = false;
  bool in_place = false;
  bool column_sums = false;

  std::string text() const {
    return std::string(bias ? " bias" : "") + (gelu ? " gelu" : "") +
           (gelu_gradient ? " gelu_gradient" : "") + (residual ? " residual" : "") +
           (in_place ? " in_place" : "") + (column_sums ? " column_sums" : "");
  }
};

/// Every epilogue that products have.
inline const std::vector<product_parts>& every_product_parts() {
  static const std::vector<product_parts> parts = [] {
    std::vector<product_parts> list(11);
    list[1].bias = true;
    list[2].bias = list[2].gelu = true;
    list[3].gelu = true;
    list[4].bias = list[4].residual = true;
    list[5].in_place = true;
    list[6].gelu_gradient = true;
    list[7].gelu_gradient = list[7].column_sums = true;
    list[8].column_sums = true;
    list[9].residual = list[9].column_sums = true;
    list[10].in_place = list[10].column_sums = true;
    return list;
  }();
  return parts;
}

class product_case {
 public:
  product_case(product_layout layout, product_size size)
      : product_case(layout, size, random_normal(size.rows * size.inner, 1),
                     random_normal(size.inner * size.columns, 2)) {}

  /// Operands as they lie in memory.
  product_case(product_layout layout, product_size size, std::vector<float> first,
               std::vector<float> second)
      : layout_(layout), size_(size), inp1_(std::move(first)), inp2_(std::move(second)) {
    bias_ = random_normal(size.columns, 3);
    other_ = random_normal(size.rows * size.columns, 4);
    sum_.resize(other_.size());
    llmc::reference::parallel_for(size.rows, [&](std::int64_t row) {
      for (std::int64_t k = 0; k < size.inner; ++k) {
        const double x = inp1_[first_at(row, k)];
        for (std::int64_t column = 0; column < size.columns; ++column) {
          sum_[at(row, column)] += x * inp2_[second_at(k, column)];
        }
      }
    });
  }

  const std::vector<double>& sums() const { return sum_; }

  /// Runs `multiply(product, stream)` and checks all it wrote.
  template <class Multiply>
  void check(llmc::precision arithmetic, product_parts parts, int misalignment,
             Multiply multiply) const {
    INFO(to_string(layout_) << ", rows " << size_.rows << ", columns " << size_.columns
                            << ", inner " << size_.inner << ", " << llmc::to_string(arithmetic)
                            << ", misalignment " << misalignment << "," << parts.text());
    const std::int64_t count = size_.rows * size_.columns;
    const std::int64_t sum_rows = llmc::products::column_sum_rows;
    const std::int64_t partials = (size_.rows + sum_rows - 1) / sum_rows;
    const buffer<float> inp1(inp1_, misalignment), inp2(inp2_, misalignment),
        bias(bias_, misalignment), other(other_, misalignment);
    output out = parts.in_place ? output(other_, misalignment) : output(count, misalignment);
    output before(parts.gelu ? count : 1, misalignment);
    output column_sums(parts.column_sums ? partials * size_.columns : 1, misalignment);
    std::vector<output*> outputs{&out};
    if (parts.gelu) outputs.push_back(&before);
    if (parts.column_sums) outputs.push_back(&column_sums);

    llmc::products::product p = product_of(out, inp1, inp2);
    p.arithmetic = arithmetic;
    if (parts.bias) p.then.bias = bias;
    if (parts.gelu) p.then.before_gelu = before;
    if (parts.gelu_gradient) p.then.gelu_inp = other;
    if (parts.residual) p.then.residual = other;
    if (parts.in_place) p.then.residual = out;
    if (parts.column_sums) p.then.column_sums = column_sums;
    run(outputs, [&](cudaStream_t s) { multiply(p, s); });

    std::vector<double> x = sum_;
    const tolerance allowed = product_tolerance(size_.inner, arithmetic);
    if (parts.bias) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += bias_[i % bias_.size()];
    }
    if (parts.gelu) {
      check_close("before_gelu", before.values(), x, allowed);
      llmc::reference::gelu_forward(x.data(), x.data(), count);
    }
    const std::vector<double> wide = widen(other_);
    if (parts.gelu_gradient) llmc::reference::gelu_backward(x.data(), x.data(), wide.data(), count);
    if (parts.residual || parts.in_place) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += wide[i];
    }
    check_close("out", out.values(), x, {1.2 * allowed.absolute, 1.2 * allowed.relative});
    if (parts.column_sums) check_column_sums(column_sums.values(), x, allowed, sum_rows);
  }

  llmc::products::product product_of(float* out, const float* inp1, const float* inp2) const {
    const std::int64_t M = size_.rows, N = size_.columns, K = size_.inner;
    constexpr auto outer_first = llmc::products::layout::outer_first;
    switch (layout_) {
      case product_layout::forward: return {{out, N}, {inp1, K}, {inp2, K}, M, N, K};
      case product_layout::input_gradient:
        return {{out, N}, {inp1, K}, {inp2, N, outer_first}, M, N, K};
      case product_layout::weight_gradient: break;
    }
    return {{out, N}, {inp1, M, outer_first}, {inp2, N, outer_first}, M, N, K};
  }

 private:
  std::size_t at(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>(row * size_.columns + column);
  }
  std::size_t first_at(std::int64_t row, std::int64_t k) const {
    const bool turned = layout_ == product_layout::weight_gradient;
    return static_cast<std::size_t>(turned ? k * size_.rows + row : row * size_.inner + k);
  }
  std::size_t second_at(std::int64_t k, std::int64_t column) const {
    const bool turned = layout_ == product_layout::forward;
    return static_cast<std::size_t>(turned ? column * size_.inner + k : k * size_.columns + column);
  }

  void check_column_sums(const std::vector<float>& partials, const std::vector<double>& x,
                         tolerance allowed, std::int64_t sum_rows) const {
    std::vector<double> wanted(partials.size());
    for (std::int64_t row = 0; row < size_.rows; ++row) {
      for (std::int64_t column = 0; column < size_.columns; ++column) {
        wanted[at(row / sum_rows, column)] += x[at(row, column)];
      }
    }
    const double growth = std::sqrt(static_cast<double>(sum_rows));
    check_close("column_sums", partials, wanted,
                {growth * allowed.absolute, allowed.relative + 1e-5});
  }

  product_layout layout_;
  product_size size_;
  std::vector<float> inp1_, inp2_, bias_, other_;
  std::vector<double> sum_;
};

/// What FP32 arithmetic gives: NaN, an infinity, or a number.
inline std::string class_of(double x) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x > 0 ? "inf" : "-inf";
  return "finite";
}

/// Sums as FP32 multiply-adds make them, in order.
inline std::vector<float> ieee_sums(product_size size, const std::vector<float>& a,
                                    const std::vector<float>& b) {
  std::vector<float> sums(static_cast<std::size_t>(size.rows * size.columns));
  for (std::int64_t r = 0; r < size.rows; ++r) {
    for (std::int64_t c = 0; c < size.columns; ++c) {
      float sum = 0;
      for (std::int64_t k = 0; k < size.inner; ++k) {
        sum = std::fma(a[static_cast<std::size_t>(r * size.inner + k)],
                       b[static_cast<std::size_t>(c * size.inner + k)], sum);
      }
      sums[static_cast<std::size_t>(r * size.columns + c)] = sum;
    }
  }
  return sums;
}

/// A forward product with numbers that are not finite, or nearly so.
struct unruly_product {
  product_size size{132, 136, 100};
  std::vector<float> inp1 = random_normal(size.rows * size.inner, 1);
  std::vector<float> inp2 = random_normal(size.columns * size.inner, 2);

  unruly_product() {
    constexpr float inf = std::numeric_limits<float>::infinity();
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    constexpr float most = std::numeric_limits<float>::max();
    set(inp1, 0, 5, inf);
    set(inp1, 1, 99, -inf);
    set(inp1, 2, 7, nan);
    set(inp1, 3, 8, inf);
    set(inp1, 3, 9, inf);  // against inp2's signs: infinities that may cancel
    set(inp1, 131, 0, inf);
    set(inp2, 4, 5, 0.0f);  // infinity times zero
    set(inp2, 6, 50, inf);
    set(inp2, 135, 99, 1.0f);  // has no low part
    for (std::int64_t k = 0; k < size.inner; ++k) {
      set(inp1, 10, k, k == 0 ? most : 0.0f);  // FLT_MAX, which rounding must not take to infinity
      set(inp2, 10, k, k == 0 ? 1.0f : 0.25f);
      set(inp2, 11, k, k == 0 ? 2.0f : 0.25f);  // overflows
    }
  }

  /// Checks that every result is what FP32 arithmetic gives; numbers may differ by `allowed`.
  void check(const std::vector<float>& got, float allowed) const {
    const std::vector<float> wanted = ieee_sums(size, inp1, inp2);
    int wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const bool same = class_of(got[i]) == class_of(wanted[i]);
      const bool close = !std::isfinite(wanted[i]) ||
                         std::fabs(got[i] - wanted[i]) <= allowed * (10 + std::fabs(wanted[i]));
      if (!same || !close) ++wrong;
      if ((!same || !close) && wrong < 5) {
        UNSCOPED_INFO("row " << i / 136 << ", column " << i % 136 << ": got " << got[i]
                             << ", IEEE gives " << wanted[i]);
      }
    }
    CHECK(wrong == 0);
  }

 private:
  void set(std::vector<float>& x, std::int64_t outer, std::int64_t k, float value) {
    x[static_cast<std::size_t>(outer * size.inner + k)] = value;
  }
};

}  // namespace llmc_test
