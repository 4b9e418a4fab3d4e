// Linear layers next to a GELU and on a residual stream, against the layers one by one.
#include <llmc/matmul.cuh>
#include <llmc/matmul_gelu.cuh>
#include <llmc/reference/gelu.hpp>
#include <llmc/reference/matmul.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/product_case.cuh"
#include "support/random.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::accumulation;
using llmc::gelu_matmul_backward_variant;
using llmc::matmul_context;
using llmc::matmul_forward_variant;
using llmc::matmul_gelu_forward_variant;
using llmc::matmul_shape;
using llmc::precision;

namespace {

/// inp -> linear -> x; for backward, x is also what a GELU before a second linear layer was given.
struct gelu_case {
  matmul_shape shape;
  std::vector<float> inp, weight, bias, residual, dout, gelu_inp;
  std::vector<double> before, out, dgelu_inp, dgelu_bias, dweight, dbias;

  explicit gelu_case(matmul_shape s)
      : shape(s),
        inp(random_normal(s.rows * s.channels, 1)),
        weight(random_normal(s.out_channels * s.channels, 2)),
        bias(random_normal(s.out_channels, 3)),
        residual(random_normal(s.rows * s.out_channels, 4)),
        dout(random_normal(s.rows * s.out_channels, 5)),
        gelu_inp(random_normal(s.rows * s.channels, 6)),
        before(dout.size()),
        out(dout.size()),
        dgelu_inp(inp.size()),
        dgelu_bias(static_cast<std::size_t>(s.channels)),
        dweight(weight.size()),
        dbias(bias.size()) {
    const std::vector<double> x = widen(inp), w = widen(weight), b = widen(bias), d = widen(dout),
                              g = widen(gelu_inp);
    llmc::reference::matmul_forward(before.data(), x.data(), w.data(), b.data(), s);
    llmc::reference::gelu_forward(out.data(), before.data(), s.rows * s.out_channels);
    std::vector<double> dinp(inp.size());
    llmc::reference::matmul_backward(dinp.data(), dweight.data(), dbias.data(), d.data(), x.data(),
                                     w.data(), s, accumulation::overwrite);
    llmc::reference::gelu_backward(dgelu_inp.data(), dinp.data(), g.data(), s.rows * s.channels);
    for (std::size_t i = 0; i < dgelu_inp.size(); ++i) {
      dgelu_bias[i % dgelu_bias.size()] += dgelu_inp[i];
    }
  }
};

tolerance widened(tolerance t, double factor) {
  return {factor * t.absolute, factor * t.relative};
}

template <matmul_gelu_forward_variant Variant, matmul_forward_variant Residual>
void check_forward(const gelu_case& c, precision arithmetic, matmul_context& context,
                   int misalignment) {
  INFO("rows " << c.shape.rows << ", C " << c.shape.channels << ", OC " << c.shape.out_channels
               << ", " << to_string(arithmetic) << ", misalignment " << misalignment);
  const buffer<float> inp(c.inp, misalignment), weight(c.weight, misalignment),
      bias(c.bias, misalignment), residual(c.residual, misalignment);
  const std::int64_t count = c.shape.rows * c.shape.out_channels;
  output out(count, misalignment), before(count, misalignment), sum(count, misalignment),
      in_place(c.residual, misalignment);
  run({&out, &before, &sum, &in_place}, [&](cudaStream_t s) {
    llmc::matmul_gelu_forward<Variant>(out, before, inp, weight, bias, c.shape, arithmetic, context,
                                       s);
    llmc::matmul_residual_forward<Residual>(sum, residual, inp, weight, bias, c.shape, arithmetic,
                                            context, s);
    llmc::matmul_residual_forward<Residual>(in_place, in_place, inp, weight, bias, c.shape,
                                            arithmetic, context, s);
  });
  const tolerance allowed = product_tolerance(c.shape.channels, arithmetic);
  check_close("before_gelu", before.values(), c.before, allowed);
  check_close("out", out.values(), c.out, widened(allowed, 1.2));
  std::vector<double> added = c.before;
  for (std::size_t i = 0; i < added.size(); ++i) added[i] += c.residual[i];
  check_close("residual", sum.values(), added, widened(allowed, 1.2));
  check_close("residual in place", in_place.values(), added, widened(allowed, 1.2));
}

template <gelu_matmul_backward_variant Variant>
void check_backward(const gelu_case& c, precision arithmetic, accumulation mode,
                    matmul_context& context, int misalignment) {
  INFO("rows " << c.shape.rows << ", C " << c.shape.channels << ", OC " << c.shape.out_channels
               << ", " << to_string(arithmetic) << ", misalignment " << misalignment
               << (mode == accumulation::add ? ", add" : ", overwrite"));
  const buffer<float> inp(c.inp, misalignment), weight(c.weight, misalignment),
      dout(c.dout, misalignment), gelu_inp(c.gelu_inp, misalignment);
  const buffer<unsigned char> workspace(
      static_cast<std::int64_t>(llmc::gelu_matmul_backward_workspace_bytes(c.shape)));
  output dgelu_inp(c.shape.rows * c.shape.channels, misalignment);
  output dgelu_bias(c.shape.channels, mode, misalignment);
  output dweight(c.shape.out_channels * c.shape.channels, mode, misalignment);
  output dbias(c.shape.out_channels, mode, misalignment);
  run({&dgelu_inp, &dgelu_bias, &dweight, &dbias}, [&](cudaStream_t s) {
    llmc::gelu_matmul_backward<Variant>(dgelu_inp, dgelu_bias, dweight, dbias,
                                        scratch_in(workspace), dout, gelu_inp, inp, weight, c.shape,
                                        arithmetic, mode, context, s);
  });
  CHECK(workspace.guards_intact());
  const tolerance allowed = widened(product_tolerance(c.shape.out_channels, arithmetic), 1.3);
  check_close("dgelu_inp", dgelu_inp.values(), c.dgelu_inp, allowed);
  const double growth = std::sqrt(static_cast<double>(c.shape.rows));
  check_close("dgelu_bias", dgelu_bias.values(), expected_gradient(c.dgelu_bias, mode),
              {growth * allowed.absolute, allowed.relative + 1e-5});
  check_close("dweight", dweight.values(), expected_gradient(c.dweight, mode),
              product_tolerance(c.shape.rows, arithmetic));
  check_close("dbias", dbias.values(), expected_gradient(c.dbias, mode),
              sum_tolerance(c.shape.rows, 4.0));
}

/// More than `buffer` can fill from the host in reasonable time.
class big_array {
 public:
  explicit big_array(std::size_t bytes) { check_cuda(cudaMalloc(&memory_, bytes)); }
  ~big_array() { cudaFree(memory_); }
  big_array(const big_array&) = delete;
  big_array& operator=(const big_array&) = delete;

  float* get() const { return memory_; }
  std::vector<float> row(std::int64_t index, std::int64_t length) const {
    std::vector<float> values(static_cast<std::size_t>(length));
    check_cuda(cudaMemcpy(values.data(), memory_ + index * length, values.size() * sizeof(float),
                          cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  float* memory_ = nullptr;
};

const std::vector<matmul_shape>& shapes() {
  static const std::vector<matmul_shape> list{{1, 1, 1},      {3, 33, 5},    {127, 4, 129},
                                              {129, 129, 33}, {256, 96, 64}, {300, 132, 320}};
  return list;
}

}  // namespace

TEMPLATE_TEST_CASE_SIG(
    "matmul_gelu_forward and matmul_residual_forward follow the formulas", "[matmul_gelu]",
    ((matmul_gelu_forward_variant Variant, matmul_forward_variant Residual), Variant, Residual),
    (matmul_gelu_forward_variant::automatic, matmul_forward_variant::automatic),
    (matmul_gelu_forward_variant::cublaslt, matmul_forward_variant::cublaslt),
    (matmul_gelu_forward_variant::tensor_core, matmul_forward_variant::tensor_core)) {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::ieee, precision::tf32, precision::tf32x3);
  if (Variant == matmul_gelu_forward_variant::tensor_core && arithmetic == precision::ieee) return;
  for (const matmul_shape shape : shapes()) {
    for (const int misalignment : {0, 1}) {
      check_forward<Variant, Residual>(gelu_case(shape), arithmetic, context, misalignment);
    }
  }
}

TEMPLATE_TEST_CASE_SIG("gelu_matmul_backward follows the formulas", "[matmul_gelu]",
                       ((gelu_matmul_backward_variant Variant), Variant),
                       (gelu_matmul_backward_variant::automatic),
                       (gelu_matmul_backward_variant::cublaslt),
                       (gelu_matmul_backward_variant::tensor_core)) {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::ieee, precision::tf32, precision::tf32x3);
  if (Variant == gelu_matmul_backward_variant::tensor_core && arithmetic == precision::ieee) return;
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  for (const matmul_shape shape : shapes()) {
    for (const int misalignment : {0, 1}) {
      check_backward<Variant>(gelu_case(shape), arithmetic, mode, context, misalignment);
    }
  }
}

TEST_CASE("gelu_matmul_backward over no rows makes sums of 0", "[matmul_gelu]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  output dgelu_inp(1), dgelu_bias(7), dweight(21), dbias(3);
  const buffer<float> some(64);
  run({&dgelu_bias, &dweight, &dbias}, [&](cudaStream_t s) {
    llmc::gelu_matmul_backward(dgelu_inp, dgelu_bias, dweight, dbias, {}, nullptr, some, some, some,
                               {0, 7, 3}, precision::tf32x3, accumulation::overwrite, context, s);
  });
  check_close("dgelu_bias", dgelu_bias.values(), std::vector<double>(7, 0.0), {0, 0});
  check_close("dweight", dweight.values(), std::vector<double>(21, 0.0), {0, 0});
  check_close("dbias", dbias.values(), std::vector<double>(3, 0.0), {0, 0});
}

TEST_CASE("gelu_matmul_backward leaves out what is null", "[matmul_gelu]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const gelu_case c({5, 7, 3});
  const buffer<float> inp(c.inp), weight(c.weight), dout(c.dout), gelu_inp(c.gelu_inp);
  output dgelu_inp(35), dweight(21);
  run({&dgelu_inp, &dweight}, [&](cudaStream_t s) {
    llmc::gelu_matmul_backward(dgelu_inp, nullptr, nullptr, nullptr, {}, dout, gelu_inp, nullptr,
                               weight, c.shape, precision::tf32x3, accumulation::overwrite, context,
                               s);
    llmc::gelu_matmul_backward(nullptr, nullptr, dweight, nullptr, {}, dout, nullptr, inp, nullptr,
                               c.shape, precision::tf32x3, accumulation::overwrite, context, s);
  });
  check_close("dgelu_inp", dgelu_inp.values(), c.dgelu_inp,
              product_tolerance(7, precision::tf32x3));
  check_close("dweight", dweight.values(), c.dweight, product_tolerance(5, precision::tf32x3));
}

TEST_CASE("matmul_residual_forward without input channels adds the bias", "[matmul_gelu]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const buffer<float> residual(std::vector<float>{1, 2, 3, 4, 5, 6}),
      bias(std::vector<float>{8, 16});
  output out(6), without_bias(6);
  run({&out, &without_bias}, [&](cudaStream_t s) {
    llmc::matmul_residual_forward(out, residual, nullptr, nullptr, bias, {3, 0, 2},
                                  precision::tf32x3, context, s);
    llmc::matmul_residual_forward(without_bias, residual, nullptr, nullptr, nullptr, {3, 0, 2},
                                  precision::tf32x3, context, s);
  });
  check_close("out", out.values(), std::vector<double>{9, 18, 11, 20, 13, 22}, {0, 0});
  check_close("without bias", without_bias.values(), std::vector<double>{1, 2, 3, 4, 5, 6}, {0, 0});
}

TEST_CASE("matmul_gelu refuses what it cannot do", "[matmul_gelu]") {
  CHECK_THROWS_WITH(llmc::gelu_matmul_backward_workspace_bytes({1, 2, 0}),
                    "llmc::gelu_matmul_backward_workspace_bytes: out_channels must be at least 1, "
                    "got 0");
}

TEST_CASE("tensor_core has no ieee, and a GELU wants channels", "[matmul_gelu]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const buffer<float> some(64);
  const stream s;
  CHECK_THROWS_WITH((llmc::matmul_gelu_forward<matmul_gelu_forward_variant::tensor_core>(
                        some, some, some, some, some, {2, 2, 2}, precision::ieee, context, s)),
                    "llmc::matmul_gelu_forward: the variant tensor_core has no ieee arithmetic; "
                    "tf32x3 is as exact");
  CHECK_THROWS_WITH(llmc::matmul_gelu_forward(some, some, nullptr, nullptr, some, {2, 0, 2},
                                              precision::ieee, context, s),
                    "llmc::matmul_gelu_forward: channels must be at least 1, got 0");
}

TEST_CASE("matmul_gelu takes no bad argument", "[matmul_gelu]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  constexpr matmul_shape shape{2, 3, 4};
  check_refusals("llmc::matmul_gelu_forward", llmc::matmul_gelu_forward<>, array{"out"},
                 array{"before_gelu"}, array{"inp"}, array{"weight"}, optional_array{}, shape,
                 precision::ieee, std::ref(context), nullptr);
  check_refusals("llmc::gelu_matmul_backward", llmc::gelu_matmul_backward<>, optional_array{},
                 optional_array{}, optional_array{}, optional_array{},
                 needed_scratch{llmc::gelu_matmul_backward_workspace_bytes(shape)}, array{"dout"},
                 array{"gelu_inp"}, array{"inp"}, array{"weight"}, shape, precision::ieee,
                 accumulation::overwrite, std::ref(context), nullptr);
}

TEST_CASE("gelu_matmul_backward sums columns of rows so long that no run has 128 of them",
          "[matmul_gelu][large]") {
  LLMC_REQUIRE_GPU();
  constexpr std::int64_t rows = 128, narrow = 4;
  constexpr std::int64_t wide = (std::int64_t{1} << 24) + 4;  // 128 rows have 2^31 elements
  constexpr std::size_t bytes = sizeof(float) * rows * wide;
  std::size_t free_bytes = 0, total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes));
  if (free_bytes < 2 * bytes + (std::size_t{1} << 30)) LLMC_SKIP("needs 18 GB of GPU memory");
  const big_array dgelu_inp(bytes), gelu_inp(bytes);
  const stream s;
  check_cuda(cudaMemsetAsync(gelu_inp.get(), 0x42, bytes, s));  // 48.6, where gelu' is 1
  matmul_context context;
  std::vector<float> values(rows * narrow);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / narrow % 64);
  const buffer<float> dout(values), weight(std::vector<float>(wide * narrow, 1.0f));
  const matmul_shape shape{rows, wide, narrow};
  const buffer<unsigned char> workspace(
      static_cast<std::int64_t>(llmc::gelu_matmul_backward_workspace_bytes(shape)));
  const buffer<float> dgelu_bias(wide);
  llmc::gelu_matmul_backward(dgelu_inp.get(), dgelu_bias, nullptr, nullptr, scratch_in(workspace),
                             dout, gelu_inp.get(), nullptr, weight, shape, precision::tf32,
                             accumulation::overwrite, context, s);
  s.synchronize();
  CHECK(workspace.guards_intact());
  check_close("dgelu_bias", dgelu_bias.values(), std::vector<double>(wide, 4 * 2 * 2016.0), {0, 0});
}

TEMPLATE_TEST_CASE_SIG("products of our own take more than 2^31 elements", "[matmul_gelu][large]",
                       ((precision Arithmetic), Arithmetic), (precision::tf32),
                       (precision::tf32x3)) {
  LLMC_REQUIRE_GPU();
  constexpr std::int64_t rows = 45000, narrow = 4, wide = 50304;
  constexpr std::size_t bytes = sizeof(float) * rows * wide;
  std::size_t free_bytes = 0, total_bytes = 0;
  check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes));
  if (free_bytes < 2 * bytes + (std::size_t{1} << 30)) LLMC_SKIP("needs 19 GB of GPU memory");
  const big_array first(bytes), second(bytes);
  matmul_context context;
  if (context.compute_capability() < 80) LLMC_SKIP("no TF32 tensor cores");

  // Small whole numbers, and a bias from which on GELU does nothing: all that follows is exact.
  std::vector<float> values(rows * narrow);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / narrow % 64);
  const buffer<float> inp(values), weight(std::vector<float>(wide * narrow, 1.0f)),
      bias(std::vector<float>(wide, 16.0f));
  const stream s;
  llmc::matmul_gelu_forward<matmul_gelu_forward_variant::tensor_core>(
      first.get(), second.get(), inp, weight, bias, {rows, narrow, wide}, Arithmetic, context, s);
  s.synchronize();
  for (const std::int64_t row : {std::int64_t{0}, rows - 2500, rows - 1}) {
    const std::vector<double> wanted(wide, static_cast<double>(4 * (row % 64) + 16));
    check_close("out", first.row(row, wide), wanted, {0, 0});
    check_close("before_gelu", second.row(row, wide), wanted, {0, 0});
  }

  const matmul_shape shape{rows, wide, narrow};
  output dgelu_bias(wide), dweight(narrow * wide), dbias(narrow);
  const buffer<unsigned char> workspace(
      static_cast<std::int64_t>(llmc::gelu_matmul_backward_workspace_bytes(shape)));
  llmc::gelu_matmul_backward<gelu_matmul_backward_variant::tensor_core>(
      first.get(), dgelu_bias, dweight, dbias, scratch_in(workspace), inp, second.get(),
      second.get(), weight, shape, Arithmetic, accumulation::overwrite, context, s);
  s.synchronize();
  double sum = 0, sum_of_products = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto d = static_cast<double>(row % 64);
    sum += d;
    sum_of_products += d * (4 * d + 16);
  }
  for (const std::int64_t row : {std::int64_t{0}, rows - 2500, rows - 1}) {
    check_close("dgelu_inp", first.row(row, wide),
                std::vector<double>(wide, static_cast<double>(4 * (row % 64))), {0, 0});
  }
  check_close("dgelu_bias", dgelu_bias.values(), std::vector<double>(wide, 4 * sum), {0, 0});
  check_close("dbias", dbias.values(), std::vector<double>(narrow, sum), {0, 0});
  check_close("dweight", dweight.values(), std::vector<double>(narrow * wide, sum_of_products),
              {0, 1e-5});
}
