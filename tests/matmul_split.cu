// Products of matrices in halves: every layout with every epilogue, what is not finite, exactness.
#include <llmc/matmul_split.cuh>
#include <llmc/split.cuh>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/product_case.cuh"
#include "support/sizes.hpp"
#include "support/split_case.hpp"

using namespace llmc_test;
using llmc::half_products;
using llmc::matmul_context;
using llmc::precision;
using llmc::row_shape;
using llmc::split_matrix;
using llmc::products::layout;
using llmc::products::operand;
using llmc::products::product;

namespace {

#define LLMC_REQUIRE_WGMMA()                                        \
  LLMC_REQUIRE_GPU();                                               \
  if (matmul_context().compute_capability() != 90 || !has_kernel()) \
  LLMC_SKIP("needs a card of compute capability 9.0 and code for sm_90a")

bool has_kernel() {
  using tiles =
      llmc::detail::half_tiles<layout::inner_first, layout::inner_first, half_products::three>;
  return llmc::detail::wgmma_half_is_there<tiles>(matmul_context().device());
}

constexpr product_layout layouts[] = {product_layout::forward, product_layout::input_gradient,
                                      product_layout::weight_gradient};

/// Memory for the operands of products up to a size.
class operands {
 public:
  explicit operands(product_size size)
      : first_(bytes_of(size.rows, size.inner)), second_(bytes_of(size.columns, size.inner)) {}

  /// Splits the operands of `p` and multiplies them.
  void multiply(const product& p, half_products how, matmul_context& context, cudaStream_t s) {
    const split_matrix first = split(first_, p.inp1, p.rows, p.inner, s);
    const split_matrix second = split(second_, p.inp2, p.columns, p.inner, s);
    llmc::products::with_layouts(p, [&](auto order_1, auto order_2) {
      constexpr auto first_order = decltype(order_1)::value,
                     second_order = decltype(order_2)::value;
      if (how == half_products::three) {
        llmc::detail::multiply_halves<half_products::three, first_order, second_order>(
            "test", p, first, second, context, s);
      } else {
        llmc::detail::multiply_halves<half_products::one, first_order, second_order>(
            "test", p, first, second, context, s);
      }
    });
  }

 private:
  static std::int64_t bytes_of(std::int64_t outers, std::int64_t inner) {
    return static_cast<std::int64_t>(llmc::split_matrix_bytes({outers, inner}));
  }
  static split_matrix split(const buffer<unsigned char>& to, const operand& from,
                            std::int64_t outers, std::int64_t inner, cudaStream_t s) {
    const bool inner_first = from.order == layout::inner_first;
    const split_matrix matrix{to.get(),
                              inner_first ? row_shape{outers, inner} : row_shape{inner, outers}};
    llmc::split(matrix, from.data, nullptr, s);
    return matrix;
  }

  buffer<unsigned char> first_, second_;
};

precision precision_like(half_products how) {
  return how == half_products::three ? precision::tf32x3 : precision::tf32;
}

void check_product(product_layout order, product_size size, half_products how, product_parts parts,
                   int misalignment, matmul_context& context) {
  const product_case c(order, size);
  operands halves(size);
  c.check(precision_like(how), parts, misalignment,
          [&](const product& p, cudaStream_t s) { halves.multiply(p, how, context, s); });
}

}  // namespace

TEST_CASE("products of halves agree with the reference at awkward sizes", "[halves]") {
  LLMC_REQUIRE_WGMMA();
  matmul_context context;
  const half_products how = GENERATE(half_products::three, half_products::one);
  const std::vector<std::int64_t> sizes = sweep({1, 4, 33, 64, 130, 193, 260});
  for (const product_layout order : layouts) {
    for (const std::int64_t rows : sizes) {
      for (const std::int64_t columns : sizes) {
        for (const std::int64_t inner : sizes) {
          check_product(order, {rows, columns, inner}, how, {}, static_cast<int>(rows % 2),
                        context);
        }
      }
    }
  }
}

TEST_CASE("products of halves do every epilogue", "[halves]") {
  LLMC_REQUIRE_WGMMA();
  matmul_context context;
  const half_products how = GENERATE(half_products::three, half_products::one);
  for (const product_layout order : layouts) {
    for (const product_parts& parts : every_product_parts()) {
      check_product(order, {300, 320, 72}, how, parts, 0, context);
      check_product(order, {129, 67, 35}, how, parts, 1, context);
      check_product(order, {5, 4, 8}, how, parts, 0, context);
    }
  }
}

TEST_CASE("products of halves cut tiles among blocks", "[halves]") {
  LLMC_REQUIRE_WGMMA();
  matmul_context context;
  const half_products how = GENERATE(half_products::three, half_products::one);
  for (const product_layout order : layouts) {
    check_product(order, {256, 128, 9000}, how, {}, 0, context);  // few tiles, long sums
    check_product(order, {1500, 2500, 96}, how, {}, 0, context);  // rounds and a rest
    product_parts add;
    add.in_place = true;
    check_product(order, {132, 260, 4100}, how, add, 0, context);
  }
}

TEST_CASE("products of halves give what IEEE gives where operands are not finite", "[halves]") {
  LLMC_REQUIRE_WGMMA();
  matmul_context context;
  const unruly_product data;
  const half_products how = GENERATE(half_products::three, half_products::one);
  const product_case c(product_layout::forward, data.size, data.inp1, data.inp2);
  const buffer<float> inp1(data.inp1), inp2(data.inp2);
  operands halves(data.size);
  output out(data.size.rows * data.size.columns);
  run({&out},
      [&](cudaStream_t s) { halves.multiply(c.product_of(out, inp1, inp2), how, context, s); });
  data.check(out.values(), how == half_products::three ? 1e-5f : 3e-3f);
}

// ---- exactness ----

namespace {

struct hard_data {
  std::string name;
  std::vector<float> inp1, inp2;  ///< (rows, inner) and (columns, inner)
};

std::vector<hard_data> hard_data_sets(product_size size) {
  const std::vector<float> a = random_normal(size.rows * size.inner, 1);
  const std::vector<float> b = random_normal(size.columns * size.inner, 2);
  std::vector<hard_data> sets;
  const auto add = [&](const char* name, auto of_a, auto of_b) {
    hard_data data{name, a, b};
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      data.inp1[i] = static_cast<float>(of_a(at / size.inner, at % size.inner, a[i]));
    }
    for (std::size_t i = 0; i < b.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      data.inp2[i] = static_cast<float>(of_b(at / size.inner, at % size.inner, b[i]));
    }
    sets.push_back(std::move(data));
  };
  const auto as_it_is = [](auto, auto, float x) { return x; };
  const auto hash = [](std::int64_t i, int range) { return static_cast<int>(i * 7919 % range); };
  add("normal", as_it_is, as_it_is);
  const auto positive = [](auto, auto, float x) { return std::fabs(x); };
  add("positive", positive, positive);
  const auto lognormal = [](auto, auto, float x) {
    return std::copysign(std::exp(3 * std::fabs(x)), x);
  };
  add("wide", lognormal, lognormal);
  add(
      "outliers", [&](auto, auto k, float x) { return hash(k, 100) == 0 ? 64 * x : x; }, as_it_is);
  const auto spread = [&](auto outer, auto, float x) {
    return std::ldexp(x, hash(outer, 81) - 40);
  };
  add("rows spread", spread, as_it_is);
  add("columns spread", as_it_is, spread);
  for (const int range : {10, 13, 14, 20}) {
    add(
        range == 20   ? "k spread by 20"
        : range == 14 ? "by 14"
        : range == 13 ? "by 13"
                      : "by 10",
        [&](auto, auto k, float x) { return std::ldexp(x, hash(k, 2 * range + 1) - range); },
        [&](auto, auto k, float x) { return std::ldexp(x, range - hash(k, 2 * range + 1)); });
  }
  add(
      "probabilities",
      [&](auto r, auto k, float x) {
        return std::exp(-28.0 * std::fabs(std::fmod(x * 97.0, 1.0))) - (k == r ? 1 : 0);
      },
      as_it_is);
  add(
      "far apart", [](auto, auto, float x) { return std::ldexp(x, 90); },
      [](auto, auto, float x) { return std::ldexp(x, -90); });
  add(
      "tiny", [](auto, auto, float x) { return std::ldexp(x, -60); },
      [](auto, auto, float x) { return std::ldexp(x, -55); });
  add(
      "denormal", [](auto, auto, float x) { return std::ldexp(x, -135); },
      [](auto, auto, float x) { return std::ldexp(x, 100); });
  return sets;
}

/// The root of the mean over rows of the squared error relative to the row, and the worst row.
struct row_errors {
  double mean = 0, worst = 0;
};
row_errors errors_of(const std::vector<float>& actual, const std::vector<double>& expected,
                     product_size size) {
  row_errors result;
  for (std::int64_t r = 0; r < size.rows; ++r) {
    double error = 0, norm = 0;
    for (std::int64_t c = 0; c < size.columns; ++c) {
      const auto i = static_cast<std::size_t>(r * size.columns + c);
      error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
      norm += expected[i] * expected[i];
    }
    result.mean += error / norm / static_cast<double>(size.rows);
    result.worst = std::max(result.worst, std::sqrt(error / norm));
  }
  result.mean = std::sqrt(result.mean);
  return result;
}

}  // namespace

TEST_CASE("products of halves are at least as exact as FP32 multiply-adds", "[halves]") {
  LLMC_REQUIRE_WGMMA();
  matmul_context context;
  for (const std::int64_t inner : sweep({64, 768, 4096})) {
    const product_size size{128, 128, inner};
    operands halves(size);
    for (const hard_data& data : hard_data_sets(size)) {
      const product_case c(product_layout::forward, size, data.inp1, data.inp2);
      const buffer<float> inp1(data.inp1), inp2(data.inp2);
      output out(size.rows * size.columns);
      const auto errors = [&](auto multiply) {
        const stream s;
        out.reset();
        multiply(c.product_of(out, inp1, inp2), s);
        s.synchronize();
        return errors_of(out.values(), c.sums(), size);
      };
      const row_errors sgemm =
          errors([&](const product& p, cudaStream_t s) { context.multiply("test", p, s); });
      const row_errors own = errors([&](const product& p, cudaStream_t s) {
        halves.multiply(p, half_products::three, context, s);
      });
      INFO(data.name << ", inner " << inner << ": " << own.mean << ", worst row " << own.worst
                     << "; SGEMM " << sgemm.mean << ", " << sgemm.worst);
      // FP32's own rounding, added up by chance, is what nobody can ask to be beaten.
      CHECK(own.mean <= std::max(sgemm.mean, 3e-7));
      CHECK(own.worst <= std::max(sgemm.worst, 5e-7));
    }
  }
}

TEST_CASE("products of small integers in halves are exact", "[halves]") {
  LLMC_REQUIRE_WGMMA();
  matmul_context context;
  const product_size size{200, 200, 500};
  std::vector<float> a = random_normal(size.rows * size.inner, 1, 10);
  std::vector<float> b = random_normal(size.columns * size.inner, 2, 10);
  for (float& x : a) x = std::nearbyint(x);
  for (float& x : b) x = std::nearbyint(x);
  const half_products how = GENERATE(half_products::three, half_products::one);
  const product_case c(product_layout::forward, size, a, b);
  const buffer<float> inp1(a), inp2(b);
  operands halves(size);
  output out(size.rows * size.columns);
  run({&out},
      [&](cudaStream_t s) { halves.multiply(c.product_of(out, inp1, inp2), how, context, s); });
  check_close("out", out.values(), c.sums(), {0, 0});
}

TEST_CASE("the products of a layer in halves are those of the layer", "[halves]") {
  LLMC_REQUIRE_WGMMA();
  matmul_context context;
  const llmc::matmul_shape shape{150, 70, 90};
  const std::int64_t rows = shape.rows, C = shape.channels, OC = shape.out_channels;
  const std::vector<float> inp = random_normal(rows * C, 1), weight = random_normal(OC * C, 2),
                           dout = random_normal(rows * OC, 3);
  const buffer<float> inp_gpu(inp), weight_gpu(weight), dout_gpu(dout);
  const auto bytes = [](row_shape s) {
    return static_cast<std::int64_t>(llmc::split_matrix_bytes(s));
  };
  const buffer<unsigned char> inp_memory(bytes({rows, C})), weight_memory(bytes({OC, C})),
      dout_memory(bytes({rows, OC}));
  const split_matrix inp_halves{inp_memory.get(), {rows, C}},
      weight_halves{weight_memory.get(), {OC, C}}, dout_halves{dout_memory.get(), {rows, OC}};
  const llmc::accumulation mode = GENERATE(llmc::accumulation::overwrite, llmc::accumulation::add);
  output out(rows * OC), dinp(rows * C), dweight(OC * C, mode);
  run({&out, &dinp, &dweight}, [&](cudaStream_t s) {
    llmc::split(inp_halves, inp_gpu, nullptr, s);
    llmc::split(weight_halves, weight_gpu, nullptr, s);
    llmc::split(dout_halves, dout_gpu, nullptr, s);
    llmc::split_matmul_output(out, inp_halves, weight_halves, {}, context, s);
    llmc::split_matmul_input_gradient(dinp, dout_halves, weight_halves, {}, context, s);
    llmc::split_matmul_weight_gradient(dweight, dout_halves, inp_halves, mode, context, s);
  });
  const product_case forward(product_layout::forward, {rows, OC, C}, inp, weight);
  const product_case backward(product_layout::input_gradient, {rows, C, OC}, dout, weight);
  const product_case gradient(product_layout::weight_gradient, {OC, C, rows}, dout, inp);
  const auto allowed = product_tolerance(150, precision::tf32x3);
  check_close("out", out.values(), forward.sums(), allowed);
  check_close("dinp", dinp.values(), backward.sums(), allowed);
  check_close("dweight", dweight.values(), expected_gradient(gradient.sums(), mode), allowed);
}

TEST_CASE("split_matmul: what it cannot do is an error", "[halves]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  float x = 0;
  alignas(16) float some[8] = {};
  const split_matrix one{some, {2, 3}}, other{some, {2, 4}};
  CHECK_THROWS_WITH(llmc::split_matmul_output(&x, one, other, {}, context, nullptr),
                    "llmc::split_matmul_output: the channels of inp and weight must agree, got 3 "
                    "and 4");
  CHECK_THROWS_WITH(llmc::split_matmul_input_gradient(&x, one, other, {}, context, nullptr),
                    "llmc::split_matmul_input_gradient: the channels of dout and the rows of "
                    "weight must agree, got 3 and 2");
  CHECK_THROWS_WITH(
      llmc::split_matmul_weight_gradient(&x, {some, {5, 4}}, other, llmc::accumulation::add,
                                         context, nullptr),
      "llmc::split_matmul_weight_gradient: the rows of dout and inp must agree, got 5 and 2");
  CHECK_THROWS_WITH(llmc::split_matmul_output(nullptr, one, one, {}, context, nullptr),
                    "llmc::split_matmul_output: out must not be null");
  CHECK_THROWS_WITH(llmc::split_matmul_output(&x, {nullptr, {2, 3}}, one, {}, context, nullptr),
                    "llmc::split_matmul_output: inp must not be null");
}
