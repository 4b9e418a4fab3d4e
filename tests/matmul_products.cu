// Products by llmc's own kernels: every kernel in every layout with every epilogue, what is not
// finite, exactness, and which kernel takes what.
#include <llmc/matmul.cuh>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "support/product_case.cuh"
#include "support/sizes.hpp"

using namespace llmc_test;
using llmc::matmul_context;
using llmc::precision;
using llmc::products::engines;
using llmc::products::engines_constant;
using llmc::products::kernel;
using llmc::products::product;

namespace {

constexpr product_layout layouts[] = {product_layout::forward, product_layout::input_gradient,
                                      product_layout::weight_gradient};
constexpr precision precisions[] = {precision::tf32, precision::tf32x3};

/// llmc's own kernels that can do a product like `p`.
std::vector<kernel> kernels_for(const product& p, matmul_context& context) {
  const auto among = llmc::detail::candidates_for<engines::own>("test", p, context.resources());
  std::vector<kernel> found;
  for (const kernel who : llmc::products::kernels) {
    if (who != kernel::cublaslt && among.has(who)) found.push_back(who);
  }
  return found;
}

/// Checks every kernel that takes this product with these parts; returns their names.
std::vector<std::string> check_all_kernels(product_layout layout, product_size size,
                                           precision arithmetic, product_parts parts,
                                           int misalignment, matmul_context& context) {
  const product_case c(layout, size);
  std::vector<kernel> all;
  // A first run finds out what is on offer for these pointers.
  c.check(arithmetic, parts, misalignment, [&](const product& p, cudaStream_t s) {
    all = kernels_for(p, context);
    llmc::detail::multiply("test", p, engines_constant<engines::own>{}, context, s);
  });
  std::vector<std::string> names;
  for (const kernel who : all) {
    names.push_back(to_string(who));
    INFO("kernel " << names.back());
    llmc::products::plan plan;
    plan.choice.by = who;
    c.check(arithmetic, parts, misalignment, [&](const product& p, cudaStream_t s) {
      llmc::detail::run_plan<engines::own>("test", p, plan, context, s);
    });
  }
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& part) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& n) { return n.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("every product kernel agrees with the reference at awkward sizes", "[products]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::tf32, precision::tf32x3);
  const std::vector<std::int64_t> sizes = sweep({1, 4, 33, 60, 128, 132, 257});
  for (const product_layout layout : layouts) {
    for (const std::int64_t rows : sizes) {
      for (const std::int64_t columns : sizes) {
        for (const std::int64_t inner : sizes) {
          check_all_kernels(layout, {rows, columns, inner}, arithmetic, {},
                            static_cast<int>(inner % 4 == 0 ? 0 : rows % 4), context);
        }
      }
    }
  }
}

TEST_CASE("every product kernel does every epilogue", "[products]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::tf32, precision::tf32x3);
  for (const product_layout layout : layouts) {
    for (const product_parts& parts : every_product_parts()) {
      check_all_kernels(layout, {300, 320, 72}, arithmetic, parts, 0, context);
      check_all_kernels(layout, {129, 67, 35}, arithmetic, parts, 1, context);
      check_all_kernels(layout, {5, 4, 8}, arithmetic, parts, 0, context);
    }
  }
}

TEST_CASE("product kernels cut tiles among blocks", "[products]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::tf32, precision::tf32x3);
  for (const product_layout layout : layouts) {
    check_all_kernels(layout, {256, 128, 9000}, arithmetic, {}, 0,
                      context);  // few tiles, long sums
    check_all_kernels(layout, {1500, 2000, 96}, arithmetic, {}, 0, context);  // rounds and a rest
    product_parts add;
    add.in_place = true;
    check_all_kernels(layout, {132, 260, 4100}, arithmetic, add, 0, context);
  }
}

TEST_CASE("wgmma takes aligned products on Hopper, mma all others", "[products]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  for (const precision arithmetic : precisions) {
    for (const product_layout layout : layouts) {
      const auto aligned = check_all_kernels(layout, {128, 128, 64}, arithmetic, {}, 0, context);
      const auto odd = check_all_kernels(layout, {128, 128, 64}, arithmetic, {}, 1, context);
      if (context.compute_capability() == 90) CHECK(contains(aligned, "wgmma"));
      CHECK_FALSE(contains(odd, "wgmma"));
      if (context.compute_capability() >= 80) CHECK(contains(odd, "mma"));
    }
  }
}

TEST_CASE("matmul_forward_path names the kernel and the reason", "[products]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const buffer<float> memory(4096);
  float* const odd = memory.get() + 1;
  const auto path = [&](const float* inp, precision arithmetic) {
    return llmc::matmul_forward_path(memory, inp, memory, nullptr, {32, 32, 32}, arithmetic,
                                     context);
  };
  CHECK(path(memory, precision::ieee).kernel == "cublaslt");
  if (context.compute_capability() != 90) return;
  CHECK(path(memory, precision::tf32x3).kernel.find("wgmma") == 0);
  CHECK(path(odd, precision::tf32x3).kernel == "mma");
  CHECK(path(odd, precision::tf32x3).reason == "a pointer is not aligned to 16 bytes");
}

// ---- numbers that are not finite, or nearly so ----

TEST_CASE("tf32x3 gives what IEEE gives where operands are not finite", "[products]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const unruly_product data;
  const product_case c(product_layout::forward, data.size, data.inp1, data.inp2);
  const int misalignment = GENERATE(0, 1);
  const buffer<float> inp1(data.inp1, misalignment), inp2(data.inp2, misalignment);
  output out(data.size.rows * data.size.columns, misalignment);
  run({&out}, [&](cudaStream_t s) {
    product p = c.product_of(out, inp1, inp2);
    p.arithmetic = precision::tf32x3;
    llmc::detail::multiply("test", p, engines_constant<engines::own>{}, context, s);
  });
  data.check(out.values(), 1e-5f);
}

// ---- exactness ----

namespace {

/// The root of the mean over rows of the squared error relative to the row.
double relative_error(const std::vector<float>& actual, const std::vector<double>& expected,
                      product_size size) {
  double total = 0;
  for (std::int64_t r = 0; r < size.rows; ++r) {
    double error = 0, norm = 0;
    for (std::int64_t c = 0; c < size.columns; ++c) {
      const auto i = static_cast<std::size_t>(r * size.columns + c);
      error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
      norm += expected[i] * expected[i];
    }
    total += error / norm;
  }
  return std::sqrt(total / static_cast<double>(size.rows));
}

struct data_set {
  std::string name;
  std::vector<float> inp1, inp2;
};

std::vector<data_set> data_sets(product_size size) {
  const std::vector<float> a = random_normal(size.rows * size.inner, 1);
  const std::vector<float> b = random_normal(size.columns * size.inner, 2);
  std::vector<data_set> sets{{"normal", a, b}, {"spread", a, b}, {"positive", a, b}, {"far", a, b}};
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto row = static_cast<int>(static_cast<std::int64_t>(i) / size.inner);
    sets[1].inp1[i] = std::ldexp(a[i], row * 80 / static_cast<int>(size.rows) - 40);
    sets[2].inp1[i] = std::fabs(a[i]);
    sets[3].inp1[i] = std::ldexp(a[i], 97);
  }
  for (std::size_t i = 0; i < b.size(); ++i) {
    sets[2].inp2[i] = std::fabs(b[i]);
    sets[3].inp2[i] = std::ldexp(b[i], -97);
  }
  return sets;
}

template <engines Who>
std::vector<float> result_of(const product_case& c, const data_set& data, product_size size,
                             precision arithmetic, matmul_context& context, int misalignment) {
  const buffer<float> inp1(data.inp1, misalignment), inp2(data.inp2, misalignment);
  output out(size.rows * size.columns, misalignment);
  const stream s;
  product p = c.product_of(out, inp1, inp2);
  p.arithmetic = arithmetic;
  llmc::detail::multiply("test", p, engines_constant<Who>{}, context, s);
  s.synchronize();
  return out.values();
}

}  // namespace

TEST_CASE("tf32x3 is at least as exact as FP32 multiply-adds", "[products]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  for (const std::int64_t inner : sweep({64, 768, 3072, 4096, 50304})) {
    const product_size size{64, 64, inner};
    for (const data_set& data : data_sets(size)) {
      const product_case c(product_layout::forward, size, data.inp1, data.inp2);
      const double sgemm = relative_error(
          result_of<engines::library>(c, data, size, precision::ieee, context, 0), c.sums(), size);
      for (const int misalignment : {0, 1}) {  // wgmma and mma
        const double own = relative_error(
            result_of<engines::own>(c, data, size, precision::tf32x3, context, misalignment),
            c.sums(), size);
        INFO(data.name << ", inner " << inner << ", misalignment " << misalignment << ": " << own
                       << ", SGEMM " << sgemm);
        // SGEMM may itself cut such a long sum in parts for so few results; FP32's own rounding,
        // added up by chance, is what nobody can ask to be beaten.
        CHECK(own <= std::max(sgemm, 3e-7));
      }
    }
  }
}

TEST_CASE("tf32x3 loses digits of operands below 2^-100 only", "[products]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const product_size size{64, 64, 64};
  const std::vector<float> a = random_normal(size.rows * size.inner, 1);
  const std::vector<float> b = random_normal(size.columns * size.inner, 2);
  struct expectation {
    int exponent;
    double error;
  };
  // A low part is 2^-11 to 2^-22 of its number. The tensor core takes denormal parts for 0, so the
  // low part is lost from about 2^-115 on and the number itself below 2^-126.
  for (const expectation e :
       {expectation{-100, 3e-7}, expectation{-112, 3e-5}, expectation{-130, 1.0}}) {
    data_set data{"small", a, b};
    for (float& x : data.inp1) x = std::ldexp(x, e.exponent);
    for (float& x : data.inp2) x = std::ldexp(x, 100);
    const product_case c(product_layout::forward, size, data.inp1, data.inp2);
    const double error = relative_error(
        result_of<engines::own>(c, data, size, precision::tf32x3, context, 0), c.sums(), size);
    INFO("2^" << e.exponent << ": " << error);
    CHECK(error <= e.error);
  }
}

TEST_CASE("two contexts run exact products on two streams at once", "[products]") {
  LLMC_REQUIRE_GPU();
  const product_size size{1500, 768, 2304};  // tiles are cut among blocks
  const product_case c(product_layout::input_gradient, size);
  const std::vector<float> a = random_normal(size.rows * size.inner, 1);
  const std::vector<float> b = random_normal(size.inner * size.columns, 2);
  const buffer<float> inp1(a), inp2(b);
  matmul_context contexts[2];
  const stream streams[2];
  const buffer<float> outs[2] = {buffer<float>(size.rows * size.columns),
                                 buffer<float>(size.rows * size.columns)};
  for (int repeat = 0; repeat < 50; ++repeat) {
    for (int i = 0; i < 2; ++i) {
      product p = c.product_of(outs[i], inp1, inp2);
      p.arithmetic = precision::tf32x3;
      llmc::detail::multiply("test", p, engines_constant<engines::own>{}, contexts[i], streams[i]);
    }
  }
  for (int i = 0; i < 2; ++i) {
    streams[i].synchronize();
    check_close("out", outs[i].values(), c.sums(), product_tolerance(size.inner, precision::ieee));
  }
}
