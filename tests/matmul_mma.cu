// The mma.sync kernel by itself, on matrices whose lines are apart.
#include <llmc/detail/matmul/mma/launch.cuh>
#include <llmc/matmul_context.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/product_case.cuh"

using namespace llmc_test;
using llmc::matmul_context;
using llmc::precision;
using llmc::products::product;

namespace {

/// Puts `gap` times NaN behind each line of `length` numbers.
std::vector<float> spread(const std::vector<float>& m, std::int64_t length, int gap) {
  std::vector<float> result;
  for (auto line = m.begin(); line != m.end(); line += length) {
    result.insert(result.end(), line, line + length);
    result.insert(result.end(), static_cast<std::size_t>(gap),
                  std::numeric_limits<float>::quiet_NaN());
  }
  return result;
}

/// Takes the gaps out again and checks that nothing was written there.
std::vector<float> gather(const std::vector<float>& m, std::int64_t length, int gap) {
  std::vector<float> result;
  bool untouched = true;
  for (auto line = m.begin(); line != m.end(); line += length + gap) {
    result.insert(result.end(), line, line + length);
    untouched = untouched && std::all_of(line + length, line + length + gap,
                                         [](float v) { return std::isnan(v); });
  }
  CHECK(untouched);
  return result;
}

template <precision Arithmetic>
void check_apart(product_layout layout, product_size size, int gap, matmul_context& context) {
  INFO(to_string(layout) << ", rows " << size.rows << ", columns " << size.columns << ", inner "
                         << size.inner << ", " << llmc::to_string(Arithmetic) << ", gap " << gap);
  const std::vector<float> first = random_normal(size.rows * size.inner, 1);
  const std::vector<float> second = random_normal(size.inner * size.columns, 2);
  const product_case c(layout, size, first, second);
  product p = c.product_of(nullptr, nullptr, nullptr);
  const buffer<float> inp1(spread(first, p.inp1.stride, gap));
  const buffer<float> inp2(spread(second, p.inp2.stride, gap));
  output out(size.rows * (size.columns + gap)), before(size.rows * (size.columns + gap));
  for (std::int64_t* stride : {&p.out.stride, &p.inp1.stride, &p.inp2.stride}) *stride += gap;
  p.out.data = out;
  p.inp1.data = inp1;
  p.inp2.data = inp2;
  p.then.before_gelu = before;
  p.arithmetic = Arithmetic;
  run({&out, &before}, [&](cudaStream_t s) {
    llmc::products::with_layouts(p, [&](auto layout1, auto layout2) {
      using tiles =
          llmc::detail::mma_tiles<Arithmetic, decltype(layout1)::value, decltype(layout2)::value>;
      llmc::detail::multiply_by_mma<tiles>("test", p, context.resources(), s);
    });
  });
  std::vector<double> wanted = c.sums();
  const tolerance allowed = product_tolerance(size.inner, Arithmetic);
  check_close("before_gelu", gather(before.values(), size.columns, gap), wanted, allowed);
  llmc::reference::gelu_forward(wanted.data(), wanted.data(), size.rows * size.columns);
  check_close("out", gather(out.values(), size.columns, gap), wanted,
              {1.2 * allowed.absolute, 1.2 * allowed.relative});
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("multiply_by_mma takes lines that are apart", "[products]",
                       ((precision Arithmetic), Arithmetic), (precision::tf32),
                       (precision::tf32x3)) {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  if (context.compute_capability() < 80) LLMC_SKIP("no TF32 tensor cores");
  const product_layout layout = GENERATE(product_layout::forward, product_layout::input_gradient,
                                         product_layout::weight_gradient);
  for (const int gap : {1, 3, 4}) {  // with 4, lines are read 16 bytes at a time where they can be
    check_apart<Arithmetic>(layout, {132, 68, 36}, gap, context);
    check_apart<Arithmetic>(layout, {130, 68, 36}, gap, context);
    check_apart<Arithmetic>(layout, {132, 66, 36}, gap, context);
    check_apart<Arithmetic>(layout, {132, 68, 35}, gap, context);
  }
}
