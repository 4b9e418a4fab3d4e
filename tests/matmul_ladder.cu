// The rungs of the ladder: products that are kernels of their own.
#include <llmc/matmul.cuh>
#include <llmc/matmul_bias.cuh>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/linear_case.hpp"
#include "support/product_case.cuh"
#include "support/sizes.hpp"

using namespace llmc_test;
using llmc::accumulation;
using llmc::matmul_backward_variant;
using llmc::matmul_bias_backward_variant;
using llmc::matmul_context;
using llmc::matmul_forward_variant;
using llmc::matmul_shape;
using llmc::precision;

namespace {

/// Tails of every tile in every extent, and sums of several parts.
const std::vector<matmul_shape>& shapes() {
  static const std::vector<matmul_shape> all{{1, 1, 1},      {3, 33, 5},     {33, 3, 127},
                                             {127, 4, 129},  {129, 127, 65}, {130, 257, 140},
                                             {64, 768, 256}, {257, 36, 260}, {17, 1029, 12}};
  static const std::vector<matmul_shape> few{{3, 33, 5}, {130, 257, 140}};
  return wants_few_sizes() ? few : all;
}

constexpr precision precision_of(matmul_forward_variant variant) {
  return variant == matmul_forward_variant::wmma ? precision::tf32 : precision::ieee;
}

template <matmul_forward_variant Variant, int BlockSize>
void check_forward(const linear_case& c, matmul_context& context, int misalignment) {
  INFO("rows " << c.shape.rows << ", C " << c.shape.channels << ", OC " << c.shape.out_channels
               << ", misalignment " << misalignment);
  constexpr precision arithmetic = precision_of(Variant);
  const std::int64_t count = c.shape.rows * c.shape.out_channels;
  const buffer<float> inp(c.inp, misalignment), weight(c.weight, misalignment),
      bias(c.bias, misalignment), residual(c.residual, misalignment);
  output out(count, misalignment), sum(count, misalignment), in_place(c.residual, misalignment);
  run({&out, &sum, &in_place}, [&](cudaStream_t s) {
    llmc::matmul_forward<Variant, BlockSize>(out, inp, weight, bias, c.shape, arithmetic, context,
                                             s);
    llmc::matmul_residual_forward<Variant, BlockSize>(sum, residual, inp, weight, bias, c.shape,
                                                      arithmetic, context, s);
    llmc::matmul_residual_forward<Variant, BlockSize>(in_place, in_place, inp, weight, bias,
                                                      c.shape, arithmetic, context, s);
  });
  const tolerance allowed = product_tolerance(c.shape.channels, arithmetic);
  const tolerance with_residual{1.2 * allowed.absolute, 1.2 * allowed.relative};
  check_close("out", out.values(), c.out, allowed);
  check_close("residual", sum.values(), c.out_and_residual(), with_residual);
  check_close("residual in place", in_place.values(), c.out_and_residual(), with_residual);
}

template <matmul_backward_variant Variant, int BlockSize>
void check_backward(const linear_case& c, accumulation mode, matmul_context& context,
                    int misalignment) {
  INFO("rows " << c.shape.rows << ", C " << c.shape.channels << ", OC " << c.shape.out_channels
               << ", misalignment " << misalignment
               << (mode == accumulation::add ? ", add" : ", overwrite"));
  const buffer<float> inp(c.inp, misalignment), weight(c.weight, misalignment),
      dout(c.dout, misalignment);
  const buffer<unsigned char> workspace(
      static_cast<std::int64_t>(llmc::matmul_backward_workspace_bytes(c.shape)));
  output dinp(c.shape.rows * c.shape.channels, misalignment);
  output dweight(c.shape.out_channels * c.shape.channels, mode, misalignment);
  output dbias(c.shape.out_channels, mode, misalignment);
  run({&dinp, &dweight, &dbias}, [&](cudaStream_t s) {
    llmc::matmul_backward<Variant, BlockSize>(dinp, dweight, dbias, scratch_in(workspace), dout,
                                              inp, weight, c.shape, precision::ieee, mode, context,
                                              s);
  });
  CHECK(workspace.guards_intact());
  check_close("dinp", dinp.values(), c.dinp,
              product_tolerance(c.shape.out_channels, precision::ieee));
  check_close("dweight", dweight.values(), expected_gradient(c.dweight, mode),
              product_tolerance(c.shape.rows, precision::ieee));
  check_close("dbias", dbias.values(), expected_gradient(c.dbias, mode),
              sum_tolerance(c.shape.rows, 4.0));
}

/// An infinity in one row, a NaN at the beginning of another and a 0 that meets the infinity: what
/// comes out is what IEEE arithmetic gives, and nothing reaches other rows.
linear_case case_with_infinities() {
  linear_case c({70, 37, 66});
  constexpr float infinity = std::numeric_limits<float>::infinity();
  c.inp[2 * 37 + 36] = infinity;
  c.weight[5 * 37 + 36] = 0;
  c.inp[3 * 37] = std::numeric_limits<float>::quiet_NaN();
  c.dout[4 * 66 + 65] = -infinity;
  c.weight[65 * 37 + 7] = 0;
  c.dout[69 * 66] = std::numeric_limits<float>::quiet_NaN();
  c.compute();
  return c;
}

/// Numbers and infinities are equal, up to rounding, and NaN is where NaN must be.
void check_same_kind(const char* name, const std::vector<float>& actual,
                     const std::vector<double>& expected, tolerance allowed) {
  INFO(name);
  REQUIRE(actual.size() == expected.size());
  std::vector<float> numbers = actual;
  std::vector<double> wanted = expected;
  std::size_t misplaced = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(actual[i]) != std::isnan(expected[i])) ++misplaced;
    if (std::isnan(expected[i])) numbers[i] = 0, wanted[i] = 0;
  }
  CHECK(misplaced == 0);
  check_close(name, numbers, wanted, allowed);
}

}  // namespace

TEMPLATE_TEST_CASE_SIG(
    "rungs of matmul_forward agree with the reference", "[matmul_ladder]",
    ((matmul_forward_variant Variant, int BlockSize), Variant, BlockSize),
    (matmul_forward_variant::naive, 96), (matmul_forward_variant::coalesced, 128),
    (matmul_forward_variant::shared_tile, 256), (matmul_forward_variant::shared_tile, 1024),
    (matmul_forward_variant::register_tile_1d, 512),
    (matmul_forward_variant::register_tile_2d, 256), (matmul_forward_variant::double_buffered, 256),
    (matmul_forward_variant::warp_tiled, 256), (matmul_forward_variant::wmma, 128),
    (matmul_forward_variant::cublaslt_separate_bias, 256)) {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  constexpr precision arithmetic = precision_of(Variant);

  SECTION("any shape and alignment, with a residual, in place") {
    for (const matmul_shape shape : shapes()) {
      for (const int misalignment : {0, 1}) {
        check_forward<Variant, BlockSize>(linear_case(shape), context, misalignment);
      }
    }
  }
  SECTION("without a bias, without channels, and without rows") {
    const linear_case c({5, 7, 3});
    const buffer<float> inp(c.inp), weight(c.weight), bias(c.bias);
    output plain(15), bias_alone(15), zero(15);
    run({&plain, &bias_alone, &zero}, [&](cudaStream_t s) {
      llmc::matmul_forward<Variant, BlockSize>(plain, inp, weight, nullptr, c.shape, arithmetic,
                                               context, s);
      llmc::matmul_forward<Variant, BlockSize>(bias_alone, nullptr, nullptr, bias, {5, 0, 3},
                                               arithmetic, context, s);
      llmc::matmul_forward<Variant, BlockSize>(zero, nullptr, nullptr, nullptr, {5, 0, 3},
                                               arithmetic, context, s);
      llmc::matmul_forward<Variant, BlockSize>(nullptr, nullptr, nullptr, nullptr, {0, 7, 3},
                                               arithmetic, context, s);
    });
    std::vector<double> without = c.out, biases(15);
    for (std::size_t i = 0; i < 15; ++i) {
      without[i] -= c.bias[i % 3];
      biases[i] = c.bias[i % 3];
    }
    check_close("no bias", plain.values(), without, product_tolerance(7, arithmetic));
    check_close("no channels", bias_alone.values(), biases, {0, 0});
    check_close("nothing", zero.values(), std::vector<double>(15, 0.0), {0, 0});
  }
  SECTION("infinities and NaN stay in their rows") {
    const linear_case c = case_with_infinities();
    const buffer<float> inp(c.inp), weight(c.weight), bias(c.bias);
    output out(70 * 66);
    run({&out}, [&](cudaStream_t s) {
      llmc::matmul_forward<Variant, BlockSize>(out, inp, weight, bias, c.shape, arithmetic, context,
                                               s);
    });
    check_same_kind("out", out.values(), c.out, product_tolerance(37, arithmetic));
  }
  SECTION("its path is its name") {
    const auto path = llmc::matmul_forward_path<Variant>(nullptr, nullptr, nullptr, nullptr,
                                                         {5, 7, 3}, arithmetic, context);
    CHECK(path.kernel == to_string(Variant));
    CHECK(path.reason == "it was asked for");
  }
}

TEMPLATE_TEST_CASE_SIG("rungs of matmul_backward agree with the reference", "[matmul_ladder]",
                       ((matmul_backward_variant Variant, int BlockSize), Variant, BlockSize),
                       (matmul_backward_variant::naive, 96),
                       (matmul_backward_variant::shared_tile, 256),
                       (matmul_backward_variant::shared_tile, 1024),
                       (matmul_backward_variant::register_tile_2d, 256),
                       (matmul_backward_variant::warp_tiled, 256)) {
  LLMC_REQUIRE_GPU();
  matmul_context context;

  SECTION("any shape and alignment, overwritten or added to") {
    const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
    for (const matmul_shape shape : shapes()) {
      for (const int misalignment : {0, 1}) {
        check_backward<Variant, BlockSize>(linear_case(shape), mode, context, misalignment);
      }
    }
  }
  SECTION("nothing is read for what is null, and sums over no rows are 0") {
    const linear_case c({5, 7, 3});
    const buffer<float> inp(c.inp), weight(c.weight), dout(c.dout);
    output dinp(35), dweight(21), none(21);
    run({&dinp, &dweight, &none}, [&](cudaStream_t s) {
      llmc::matmul_backward<Variant, BlockSize>(dinp, nullptr, nullptr, {}, dout, nullptr, weight,
                                                c.shape, precision::ieee, accumulation::overwrite,
                                                context, s);
      llmc::matmul_backward<Variant, BlockSize>(nullptr, dweight, nullptr, {}, dout, inp, nullptr,
                                                c.shape, precision::ieee, accumulation::overwrite,
                                                context, s);
      llmc::matmul_backward<Variant, BlockSize>(nullptr, none, nullptr, {}, nullptr, nullptr,
                                                nullptr, {0, 7, 3}, precision::ieee,
                                                accumulation::overwrite, context, s);
    });
    check_close("dinp", dinp.values(), c.dinp, product_tolerance(3, precision::ieee));
    check_close("dweight", dweight.values(), c.dweight, product_tolerance(5, precision::ieee));
    check_close("dweight of no rows", none.values(), std::vector<double>(21, 0.0), {0, 0});
  }
  SECTION("infinities and NaN stay in their rows and columns") {
    const linear_case c = case_with_infinities();
    const buffer<float> inp(c.inp), weight(c.weight), dout(c.dout);
    output dinp(70 * 37), dweight(66 * 37);
    run({&dinp, &dweight}, [&](cudaStream_t s) {
      llmc::matmul_backward<Variant, BlockSize>(dinp, dweight, nullptr, {}, dout, inp, weight,
                                                c.shape, precision::ieee, accumulation::overwrite,
                                                context, s);
    });
    check_same_kind("dinp", dinp.values(), c.dinp, product_tolerance(66, precision::ieee));
    check_same_kind("dweight", dweight.values(), c.dweight, product_tolerance(70, precision::ieee));
  }
}

TEST_CASE("FP32 rungs take every precision, and give the same bits", "[matmul_ladder]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const linear_case c({33, 40, 65});
  const buffer<float> inp(c.inp), weight(c.weight), bias(c.bias);
  const auto out_in = [&](precision arithmetic) {
    output out(33 * 65);
    run({&out}, [&](cudaStream_t s) {
      llmc::matmul_forward<matmul_forward_variant::warp_tiled>(out, inp, weight, bias, c.shape,
                                                               arithmetic, context, s);
    });
    return out.values();
  };
  const std::vector<float> wanted = out_in(precision::ieee);
  CHECK(out_in(precision::tf32) == wanted);
  CHECK(out_in(precision::tf32x3) == wanted);
}

TEMPLATE_TEST_CASE_SIG("long sums by FP32 rungs are made in parts", "[matmul_ladder]",
                       ((matmul_forward_variant Variant), Variant), (matmul_forward_variant::naive),
                       (matmul_forward_variant::coalesced), (matmul_forward_variant::shared_tile),
                       (matmul_forward_variant::register_tile_1d),
                       (matmul_forward_variant::register_tile_2d),
                       (matmul_forward_variant::double_buffered),
                       (matmul_forward_variant::warp_tiled)) {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  // Added one by one, these positive terms would be off by 7e-4 of their sum.
  const matmul_shape shape{2, 65536, 3};
  const buffer<float> inp(std::vector<float>(2 * 65536, 1.1f)),
      weight(std::vector<float>(3 * 65536, 1.0f));
  output out(6);
  run({&out}, [&](cudaStream_t s) {
    llmc::matmul_forward<Variant>(out, inp, weight, nullptr, shape, precision::ieee, context, s);
  });
  check_close("out", out.values(), std::vector<double>(6, 65536 * static_cast<double>(1.1f)),
              {0, 2e-5});
}

TEST_CASE("wmma has only tf32", "[matmul_ladder]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const buffer<float> some(64);
  const stream s;
  CHECK_THROWS_WITH((llmc::matmul_forward<matmul_forward_variant::wmma>(
                        some, some, some, nullptr, {2, 2, 2}, precision::tf32x3, context, s)),
                    "llmc::matmul_forward: the variant wmma has only tf32 arithmetic, got tf32x3");
  CHECK_THROWS_AS((llmc::matmul_residual_forward<matmul_forward_variant::wmma>(
                      some, some, some, some, nullptr, {2, 2, 2}, precision::ieee, context, s)),
                  llmc::unsupported);
}

// ---- large ----

namespace {

template <matmul_forward_variant Variant>
void check_large_forward(float* big, const buffer<float>& inp, const buffer<float>& weight,
                         const buffer<float>& bias, matmul_shape shape, matmul_context& context) {
  INFO(to_string(Variant));
  const stream s;
  const auto columns = static_cast<std::size_t>(shape.out_channels);
  check_cuda(cudaMemsetAsync(big, 0xff, sizeof(float) * columns * 45000, s));
  llmc::matmul_forward<Variant>(big, inp, weight, bias, shape, precision_of(Variant), context, s);
  s.synchronize();
  for (const std::int64_t row : {0, 42000, 44999}) {
    std::vector<float> values(columns);
    check_cuda(cudaMemcpy(values.data(), big + row * shape.out_channels,
                          values.size() * sizeof(float), cudaMemcpyDeviceToHost));
    const double wanted = static_cast<double>(row % 1024) + 0.25;
    check_close("row", values, std::vector<double>(columns, wanted), {0, 0});
  }
}

template <matmul_backward_variant Variant>
void check_large_backward(const float* big, const buffer<float>& inp, const buffer<float>& weight,
                          matmul_shape shape, matmul_context& context) {
  INFO(to_string(Variant));
  const stream s;
  output dinp(shape.rows), dweight(shape.out_channels);
  llmc::matmul_backward<Variant>(dinp, dweight, nullptr, {}, big, inp, weight, shape,
                                 precision::ieee, accumulation::overwrite, context, s);
  s.synchronize();
  std::vector<double> rows(static_cast<std::size_t>(shape.rows));
  double sum = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto x = static_cast<double>(r % 1024);
    rows[r] = static_cast<double>(shape.out_channels) * (x + 0.25);
    sum += x * (x + 0.25);
  }
  check_close("dinp", dinp.values(), rows, {0, 5e-5});
  check_close("dweight", dweight.values(),
              std::vector<double>(static_cast<std::size_t>(shape.out_channels), sum), {0, 5e-5});
}

}  // namespace

TEST_CASE("rungs take more than 2^31 elements", "[matmul_ladder][large]") {
  LLMC_REQUIRE_GPU();
  const matmul_shape shape{45000, 1, 50304};
  const std::size_t bytes = sizeof(float) * 45000 * 50304;
  LLMC_REQUIRE_GPU_BYTES(bytes + (std::size_t{1} << 30));
  float* memory = nullptr;
  check_cuda(cudaMalloc(&memory, bytes));
  const std::unique_ptr<float, cudaError_t (*)(void*)> big(memory, cudaFree);
  matmul_context context;
  std::vector<float> rows(45000);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i % 1024);
  const buffer<float> inp(rows), weight(std::vector<float>(50304, 1.0f)),
      bias(std::vector<float>(50304, 0.25f));

  using forward = matmul_forward_variant;
  check_large_forward<forward::naive>(memory, inp, weight, bias, shape, context);
  check_large_forward<forward::coalesced>(memory, inp, weight, bias, shape, context);
  check_large_forward<forward::shared_tile>(memory, inp, weight, bias, shape, context);
  check_large_forward<forward::register_tile_1d>(memory, inp, weight, bias, shape, context);
  check_large_forward<forward::register_tile_2d>(memory, inp, weight, bias, shape, context);
  check_large_forward<forward::wmma>(memory, inp, weight, bias, shape, context);
  check_large_forward<forward::warp_tiled>(memory, inp, weight, bias, shape, context);

  using backward = matmul_backward_variant;
  check_large_backward<backward::naive>(memory, inp, weight, shape, context);
  check_large_backward<backward::shared_tile>(memory, inp, weight, shape, context);
  check_large_backward<backward::register_tile_2d>(memory, inp, weight, shape, context);
  check_large_backward<backward::warp_tiled>(memory, inp, weight, shape, context);

  output dbias(50304);
  const stream s;
  llmc::matmul_bias_backward<matmul_bias_backward_variant::column_per_block>(
      dbias, {}, memory, {45000, 50304}, accumulation::overwrite, s);
  s.synchronize();
  double sum = 0;
  for (const float x : rows) sum += static_cast<double>(x) + 0.25;
  check_close("dbias", dbias.values(), std::vector<double>(50304, sum), {0, 1e-5});
}
