#include <llmc/gelu.cuh>
#include <llmc/reference/gelu.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "support/compare.hpp"
#include "support/gelu_values.hpp"
#include "support/gpu.cuh"
#include "support/random.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::gelu_backward_variant;
using llmc::gelu_forward_variant;

namespace {

struct gelu_case {
  std::int64_t count;
  std::vector<float> inp, dout;
  std::vector<double> out, dinp;

  explicit gelu_case(const std::vector<float>& values)
      : count(static_cast<std::int64_t>(values.size())),
        inp(values),
        dout(random_normal(count, 2)),
        out(inp.size()),
        dinp(inp.size()) {
    llmc::reference::gelu_forward(out.data(), widen(inp).data(), count);
    llmc::reference::gelu_backward(dinp.data(), widen(dout).data(), widen(inp).data(), count);
  }
  explicit gelu_case(std::int64_t n) : gelu_case(random_normal(n, 1, 3.0)) {}
};

/// The value and the derivative are right to a few units in the last place of 1, and dout, which
/// multiplies the derivative, reaches about 5.
constexpr tolerance forward_tolerance{1e-6, 1e-6};
constexpr tolerance backward_tolerance{5e-6, 1e-6};

template <gelu_forward_variant Variant, int BlockSize>
void check_forward(const gelu_case& c, int misalignment) {
  INFO("count " << c.count << ", misalignment " << misalignment);
  const buffer<float> inp(c.inp, misalignment);
  output out(c.count, misalignment);
  run({&out},
      [&](cudaStream_t s) { llmc::gelu_forward<Variant, BlockSize>(out, inp, c.count, s); });
  check_close("out", out.values(), c.out, forward_tolerance);
}

template <gelu_backward_variant Variant, int BlockSize>
void check_backward(const gelu_case& c, int misalignment) {
  INFO("count " << c.count << ", misalignment " << misalignment);
  const buffer<float> dout(c.dout, misalignment), inp(c.inp, misalignment);
  output dinp(c.count, misalignment);
  run({&dinp}, [&](cudaStream_t s) {
    llmc::gelu_backward<Variant, BlockSize>(dinp, dout, inp, c.count, s);
  });
  check_close("dinp", dinp.values(), c.dinp, backward_tolerance);
}

/// gelu and its derivative of the given numbers.
struct gelu_results {
  std::vector<float> out, dinp;
};
gelu_results results_of(const std::vector<float>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  const buffer<float> inp(values), dout(std::vector<float>(values.size(), 1.0f));
  output out(count), dinp(count);
  run({&out, &dinp}, [&](cudaStream_t s) {
    llmc::gelu_forward(out, inp, count, s);
    llmc::gelu_backward(dinp, dout, inp, count, s);
  });
  return {out.values(), dinp.values()};
}

}  // namespace

TEMPLATE_TEST_CASE_SIG(
    "gelu_forward agrees with the reference", "[gelu]",
    ((gelu_forward_variant Variant, int BlockSize), Variant, BlockSize),
    (gelu_forward_variant::automatic, 256), (gelu_forward_variant::element_per_thread, 32),
    (gelu_forward_variant::element_per_thread, 1024), (gelu_forward_variant::pack_per_thread, 32),
    (gelu_forward_variant::pack_per_thread, 96), (gelu_forward_variant::pack_per_thread, 1024),
    (gelu_forward_variant::packs_per_thread, 32), (gelu_forward_variant::packs_per_thread, 96),
    (gelu_forward_variant::packs_per_thread, 1024)) {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t count : awkward_sizes) {
    const gelu_case c(count);
    for (const int misalignment : {0, 1}) check_forward<Variant, BlockSize>(c, misalignment);
  }
  check_forward<Variant, BlockSize>(gelu_case(100003), 0);
}

TEMPLATE_TEST_CASE_SIG(
    "gelu_backward agrees with the reference", "[gelu]",
    ((gelu_backward_variant Variant, int BlockSize), Variant, BlockSize),
    (gelu_backward_variant::automatic, 256), (gelu_backward_variant::element_per_thread, 32),
    (gelu_backward_variant::element_per_thread, 1024), (gelu_backward_variant::pack_per_thread, 32),
    (gelu_backward_variant::pack_per_thread, 96), (gelu_backward_variant::pack_per_thread, 1024),
    (gelu_backward_variant::packs_per_thread, 32), (gelu_backward_variant::packs_per_thread, 96),
    (gelu_backward_variant::packs_per_thread, 1024)) {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t count : awkward_sizes) {
    const gelu_case c(count);
    for (const int misalignment : {0, 1}) check_backward<Variant, BlockSize>(c, misalignment);
  }
  check_backward<Variant, BlockSize>(gelu_case(100003), 0);
}

TEST_CASE("gelu gives known values", "[gelu]") {
  LLMC_REQUIRE_GPU();
  const gelu_results results = results_of(gelu_inputs);
  check_close("out", results.out, gelu_outputs, {1e-6, 1e-6});
  check_close("dinp", results.dinp, gelu_derivatives, {1e-6, 1e-6});
}

TEST_CASE("gelu is right all along the line where it bends", "[gelu]") {
  LLMC_REQUIRE_GPU();
  std::vector<float> line;
  for (int i = -20000; i <= 20000; ++i) line.push_back(static_cast<float>(i) / 1000);
  const gelu_case c(line);
  check_forward<gelu_forward_variant::automatic, 256>(c, 0);
  check_backward<gelu_backward_variant::automatic, 256>(c, 0);
}

TEST_CASE("gelu of huge numbers is finite, and of NaN is NaN", "[gelu]") {
  LLMC_REQUIRE_GPU();
  constexpr float most = std::numeric_limits<float>::max();
  const std::vector<float> huge{1e4f,  1e10f,  1e13f,  1e20f,  most,
                                -1e4f, -1e10f, -1e13f, -1e20f, -most};
  const gelu_results results = results_of(huge);
  std::vector<double> out, dinp;
  for (const float x : huge) {
    out.push_back(x > 0 ? x : 0.0f);
    dinp.push_back(x > 0 ? 1 : 0);
  }
  check_close("out", results.out, out, {1e-30, 0});
  check_close("dinp", results.dinp, dinp, {1e-30, 0});

  constexpr float inf = std::numeric_limits<float>::infinity();
  const gelu_results special = results_of({std::nanf(""), -inf, inf});
  CHECK(std::isnan(special.out[0]));
  CHECK(std::isnan(special.dinp[0]));
  CHECK(std::isnan(special.out[1]));
  CHECK(special.out[2] == inf);
}

TEMPLATE_TEST_CASE_SIG("gelu_forward may write over its input", "[gelu]",
                       ((gelu_forward_variant Variant), Variant),
                       gelu_forward_variant::element_per_thread,
                       gelu_forward_variant::pack_per_thread,
                       gelu_forward_variant::packs_per_thread) {
  LLMC_REQUIRE_GPU();
  const gelu_case c(1023);
  output out(c.inp);
  run({&out}, [&](cudaStream_t s) { llmc::gelu_forward<Variant>(out, out, c.count, s); });
  check_close("out", out.values(), c.out, forward_tolerance);
}

TEMPLATE_TEST_CASE_SIG("gelu_backward may write dinp over dout", "[gelu]",
                       ((gelu_backward_variant Variant), Variant),
                       gelu_backward_variant::element_per_thread,
                       gelu_backward_variant::pack_per_thread,
                       gelu_backward_variant::packs_per_thread) {
  LLMC_REQUIRE_GPU();
  const gelu_case c(1023);
  const buffer<float> inp(c.inp);
  output dinp(c.dout);
  run({&dinp}, [&](cudaStream_t s) { llmc::gelu_backward<Variant>(dinp, dinp, inp, c.count, s); });
  check_close("dinp", dinp.values(), c.dinp, backward_tolerance);
}

TEST_CASE("gelu_forward passes 2^31 elements", "[gelu][large]") {
  LLMC_REQUIRE_GPU();
  const std::int64_t count = (std::int64_t{1} << 31) + 5;
  LLMC_REQUIRE_GPU_BYTES(static_cast<std::size_t>(count) * sizeof(float));
  const buffer<float> x(count);
  check_cuda(cudaMemset(x, 0, static_cast<std::size_t>(count) * sizeof(float)));
  const gelu_case tail(9);  // the last whole pack ends at count - 1
  float* const last = x + (count - tail.count);
  check_cuda(cudaMemcpy(last, tail.inp.data(), 9 * sizeof(float), cudaMemcpyHostToDevice));
  check_cuda(cudaDeviceSynchronize());
  const stream s;
  llmc::gelu_forward(x, x, count, s);
  s.synchronize();
  std::vector<float> out(9);
  check_cuda(cudaMemcpy(out.data(), last, 9 * sizeof(float), cudaMemcpyDeviceToHost));
  check_close("the last elements", out, tail.out, forward_tolerance);
}

TEST_CASE("gelu of nothing is nothing to do", "[gelu]") {
  LLMC_REQUIRE_GPU();
  CHECK_NOTHROW(llmc::gelu_forward(nullptr, nullptr, 0, nullptr));
  CHECK_NOTHROW(llmc::gelu_backward(nullptr, nullptr, nullptr, 0, nullptr));
}

TEST_CASE("gelu refuses bad arguments", "[gelu]") {
  check_refusals("llmc::gelu_forward", llmc::gelu_forward<>, array{"out"}, array{"inp"}, 5,
                 nullptr);
  check_refusals("llmc::gelu_backward", llmc::gelu_backward<>, array{"dinp"}, array{"dout"},
                 array{"inp"}, 5, nullptr);
  float x = 0;
  CHECK_THROWS_AS(llmc::gelu_forward(&x, &x, std::numeric_limits<std::int64_t>::max(), nullptr),
                  llmc::invalid_argument);
}
