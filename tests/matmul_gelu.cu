// Linear layers next to a GELU and on a residual stream, against the layers one by one.
#include <llmc/matmul_gelu.cuh>
#include <llmc/reference/gelu.hpp>
#include <llmc/reference/matmul.hpp>

#include <cstdint>
#include <vector>

#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/product_case.cuh"
#include "support/random.hpp"
#include "support/sizes.hpp"

using namespace llmc_test;
using llmc::accumulation;
using llmc::matmul_backward_variant;
using llmc::matmul_context;
using llmc::matmul_forward_variant;
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

template <matmul_forward_variant Variant>
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
    llmc::matmul_residual_forward<Variant>(sum, residual, inp, weight, bias, c.shape, arithmetic,
                                           context, s);
    llmc::matmul_residual_forward<Variant>(in_place, in_place, inp, weight, bias, c.shape,
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

template <matmul_backward_variant Variant>
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
    llmc::gelu_matmul_backward<Variant>(dgelu_inp, dgelu_bias, dweight, dbias, workspace.get(),
                                        dout, gelu_inp, inp, weight, c.shape, arithmetic, mode,
                                        context, s);
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

const std::vector<matmul_shape>& shapes() {
  static const std::vector<matmul_shape> list{{1, 1, 1},      {3, 33, 5},    {127, 4, 129},
                                              {129, 129, 33}, {256, 96, 64}, {300, 132, 320}};
  return list;
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("matmul_gelu_forward and matmul_residual_forward follow the formulas",
                       "[matmul_gelu]", ((matmul_forward_variant Variant), Variant),
                       (matmul_forward_variant::automatic), (matmul_forward_variant::cublaslt),
                       (matmul_forward_variant::tensor_core)) {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::ieee, precision::tf32, precision::tf32x3);
  if (Variant == matmul_forward_variant::tensor_core && arithmetic == precision::ieee) return;
  for (const matmul_shape shape : shapes()) {
    for (const int misalignment : {0, 1}) {
      check_forward<Variant>(gelu_case(shape), arithmetic, context, misalignment);
    }
  }
}

TEMPLATE_TEST_CASE_SIG("gelu_matmul_backward follows the formulas", "[matmul_gelu]",
                       ((matmul_backward_variant Variant), Variant),
                       (matmul_backward_variant::automatic), (matmul_backward_variant::cublaslt),
                       (matmul_backward_variant::tensor_core)) {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::ieee, precision::tf32, precision::tf32x3);
  if (Variant == matmul_backward_variant::tensor_core && arithmetic == precision::ieee) return;
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
    llmc::gelu_matmul_backward(dgelu_inp, dgelu_bias, dweight, dbias, nullptr, nullptr, some, some,
                               some, {0, 7, 3}, precision::tf32x3, accumulation::overwrite, context,
                               s);
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
    llmc::gelu_matmul_backward(dgelu_inp, nullptr, nullptr, nullptr, nullptr, dout, gelu_inp,
                               nullptr, weight, c.shape, precision::tf32x3, accumulation::overwrite,
                               context, s);
    llmc::gelu_matmul_backward(nullptr, nullptr, dweight, nullptr, nullptr, dout, nullptr, inp,
                               nullptr, c.shape, precision::tf32x3, accumulation::overwrite,
                               context, s);
  });
  check_close("dgelu_inp", dgelu_inp.values(), c.dgelu_inp,
              product_tolerance(7, precision::tf32x3));
  check_close("dweight", dweight.values(), c.dweight, product_tolerance(5, precision::tf32x3));
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
  CHECK_THROWS_WITH((llmc::matmul_gelu_forward<matmul_forward_variant::tensor_core>(
                        some, some, some, some, some, {2, 2, 2}, precision::ieee, context, s)),
                    "llmc::matmul_gelu_forward: the variant tensor_core has no ieee arithmetic; "
                    "tf32x3 is as exact");
  CHECK_THROWS_WITH(llmc::matmul_gelu_forward(some, some, nullptr, nullptr, some, {2, 0, 2},
                                              precision::ieee, context, s),
                    "llmc::matmul_gelu_forward: channels must be at least 1, got 0");
}
