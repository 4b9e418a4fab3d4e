#include <llmc/layernorm.cuh>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/layernorm_case.cuh"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::layernorm_forward_variant;
using llmc::row_shape;

namespace {

constexpr float epsilon = layernorm_epsilon;

/// The relative error of rstd that one_pass_variance promises.
double cancellation_error(const layernorm_case& c) {
  double worst = 0;
  for (std::size_t r = 0; r < c.mean.size(); ++r) {
    worst = std::max(worst, 1 + c.mean[r] * c.mean[r] * c.rstd[r] * c.rstd[r]);
  }
  return 8 * std::numeric_limits<float>::epsilon() * worst;
}

template <layernorm_forward_variant Variant, int BlockSize>
void check_forward(const layernorm_case& c, double input_scale, int misalignment) {
  INFO("rows " << c.shape.rows << ", channels " << c.shape.channels << ", misalignment "
               << misalignment);
  const buffer<float> inp(c.inp, misalignment), weight(c.weight, misalignment),
      bias(c.bias, misalignment);
  output out(c.shape.rows * c.shape.channels, misalignment), mean(c.shape.rows), rstd(c.shape.rows);
  run({&out, &mean, &rstd}, [&](cudaStream_t s) {
    llmc::layernorm_forward<Variant, BlockSize>(out, mean, rstd, inp, weight, bias, c.shape,
                                                epsilon, s);
  });
  tolerance allowed_out = row_tolerance(c, input_scale);
  tolerance allowed_rstd{0, 1e-5 * input_scale};
  if (Variant == layernorm_forward_variant::one_pass_variance) {
    constexpr double largest_out = 16;
    allowed_out.absolute += largest_out * cancellation_error(c);
    allowed_rstd.relative += cancellation_error(c);
  }
  check_close("out", out.values(), c.out, allowed_out);
  check_close("mean", mean.values(), c.mean, sum_tolerance(c.shape.channels, input_scale));
  check_close("rstd", rstd.values(), c.rstd, allowed_rstd);
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("layernorm_forward agrees with the reference", "[layernorm]",
                       ((layernorm_forward_variant Variant, int BlockSize), Variant, BlockSize),
                       (layernorm_forward_variant::automatic, 256),
                       (layernorm_forward_variant::thread_per_row, 96),
                       (layernorm_forward_variant::three_kernels, 96),
                       (layernorm_forward_variant::three_kernels, 1024),
                       (layernorm_forward_variant::warp_per_row, 32),
                       (layernorm_forward_variant::warp_per_row, 96),
                       (layernorm_forward_variant::warp_per_row, 1024),
                       (layernorm_forward_variant::one_pass_variance, 96),
                       (layernorm_forward_variant::row_in_shared_memory, 96),
                       (layernorm_forward_variant::row_in_shared_memory, 1024),
                       (layernorm_forward_variant::row_in_registers, 32),
                       (layernorm_forward_variant::row_in_registers, 96),
                       (layernorm_forward_variant::row_in_registers, 1024)) {
  LLMC_REQUIRE_GPU();
  const std::int64_t rows = GENERATE(1, 5, 33);
  for (const std::int64_t channels : awkward_sizes) {
    if (Variant == layernorm_forward_variant::row_in_registers && channels > 32 * BlockSize) break;
    const layernorm_case c({rows, channels});
    for (const int misalignment : {0, 1}) check_forward<Variant, BlockSize>(c, 1.0, misalignment);
  }
}

TEMPLATE_TEST_CASE_SIG("layernorm_forward keeps its digits where the mean is large", "[layernorm]",
                       ((layernorm_forward_variant Variant, int BlockSize), Variant, BlockSize),
                       (layernorm_forward_variant::automatic, 256),
                       (layernorm_forward_variant::thread_per_row, 96),
                       (layernorm_forward_variant::three_kernels, 96),
                       (layernorm_forward_variant::warp_per_row, 96),
                       (layernorm_forward_variant::row_in_shared_memory, 96)) {
  LLMC_REQUIRE_GPU();
  check_forward<Variant, BlockSize>(layernorm_case({17, 768}, 3000.0), 3000.0, 0);
}

TEST_CASE("layernorm_forward by one_pass_variance loses the digits that a large mean takes",
          "[layernorm]") {
  LLMC_REQUIRE_GPU();
  constexpr auto one_pass = layernorm_forward_variant::one_pass_variance;
  check_forward<one_pass, 96>(layernorm_case({17, 768}, 30.0), 30.0, 0);

  // Squares of 9e6 are 1 apart in FP32, and the variance is 1.
  const layernorm_case c({17, 768}, 3000.0);
  const buffer<float> inp(c.inp), weight(c.weight), bias(c.bias);
  output out(17 * 768), mean(17), rstd(17);
  run({&out, &mean, &rstd}, [&](cudaStream_t s) {
    llmc::layernorm_forward<one_pass, 96>(out, mean, rstd, inp, weight, bias, c.shape, epsilon, s);
  });
  check_close("mean", mean.values(), c.mean, sum_tolerance(768, 3000.0));
  const tolerance kept_by_the_others{0, 1e-5 * 3000};
  CHECK(compare(rstd.values(), c.rstd, kept_by_the_others).wrong > 0);
}

TEST_CASE("layernorm_forward by one_pass_variance finds none in a single number", "[layernorm]") {
  LLMC_REQUIRE_GPU();
  // The square is not exact in FP32; what its rounding leaves must not count as variance.
  const float number = 1.1f;
  const buffer<float> inp(std::vector<float>{number}), weight(std::vector<float>{2.0f}),
      bias(std::vector<float>{3.0f});
  output out(1), mean(1), rstd(1);
  run({&out, &mean, &rstd}, [&](cudaStream_t s) {
    llmc::layernorm_forward<layernorm_forward_variant::one_pass_variance, 96>(
        out, mean, rstd, inp, weight, bias, {1, 1}, epsilon, s);
  });
  check_close("out", out.values(), std::vector<double>{3}, {0, 0});
  check_close("mean", mean.values(), std::vector<double>{number}, {0, 0});
  check_close("rstd", rstd.values(), std::vector<double>{1 / std::sqrt(double{epsilon})},
              {0, 1e-6});
}

TEST_CASE("layernorm_forward takes rows of any length", "[layernorm]") {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t channels : layernorm_row_lengths) {
    const layernorm_case c({7, channels});
    for (const int misalignment : {0, 1}) {
      check_forward<layernorm_forward_variant::automatic, 256>(c, 1.0, misalignment);
    }
  }
}

TEST_CASE("layernorm_forward takes more rows than a grid's y extent", "[layernorm]") {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t rows : {65535, 65536, 65537}) {
    check_forward<layernorm_forward_variant::automatic, 256>(layernorm_case({rows, 8}), 1.0, 0);
  }
}

TEMPLATE_TEST_CASE_SIG("layernorm_forward may write over its input and leave out the statistics",
                       "[layernorm]",
                       ((layernorm_forward_variant Variant, int BlockSize), Variant, BlockSize),
                       (layernorm_forward_variant::automatic, 256),
                       (layernorm_forward_variant::thread_per_row, 96),
                       (layernorm_forward_variant::warp_per_row, 96),
                       (layernorm_forward_variant::one_pass_variance, 96),
                       (layernorm_forward_variant::row_in_shared_memory, 96)) {
  LLMC_REQUIRE_GPU();
  const layernorm_case c({7, GENERATE(65, 768, 1600, 8193)});
  const buffer<float> weight(c.weight), bias(c.bias);
  output out(c.inp);
  run({&out}, [&](cudaStream_t s) {
    llmc::layernorm_forward<Variant, BlockSize>(out, nullptr, nullptr, out, weight, bias, c.shape,
                                                epsilon, s);
  });
  check_close("out", out.values(), c.out, row_tolerance(c, 1.0));
}

TEST_CASE("layernorm_forward in three_kernels may write over its input", "[layernorm]") {
  LLMC_REQUIRE_GPU();
  const layernorm_case c({7, GENERATE(65, 768, 8193)});
  const buffer<float> weight(c.weight), bias(c.bias);
  output out(c.inp), mean(7), rstd(7);
  run({&out, &mean, &rstd}, [&](cudaStream_t s) {
    llmc::layernorm_forward<layernorm_forward_variant::three_kernels, 96>(
        out, mean, rstd, out, weight, bias, c.shape, epsilon, s);
  });
  check_close("out", out.values(), c.out, row_tolerance(c, 1.0));
}

TEST_CASE("layernorm_forward in shared memory takes what fits there and no more", "[layernorm]") {
  LLMC_REQUIRE_GPU();
  constexpr auto in_shared_memory = layernorm_forward_variant::row_in_shared_memory;
  const std::int64_t most = llmc::detail::most_channels_in_shared_memory("test", 1);
  for (const std::int64_t channels : {most - 1, most}) {
    check_forward<in_shared_memory, 1024>(layernorm_case({2, channels}), 1.0, 0);
  }
  const buffer<float> x(1);
  CHECK_THROWS_WITH((llmc::layernorm_forward<in_shared_memory, 1024>(
                        x, x, x, x, x, x, {1, most + 1}, epsilon, nullptr)),
                    "llmc::layernorm_forward: the variant row_in_shared_memory takes at most " +
                        std::to_string(most) + " channels on this device, got " +
                        std::to_string(most + 1));
}

TEST_CASE("layernorm_forward refuses bad arguments", "[layernorm]") {
  check_refusals("llmc::layernorm_forward", llmc::layernorm_forward<>, array{"out"},
                 optional_array{}, optional_array{}, array{"inp"}, array{"weight"}, array{"bias"},
                 row_shape{2, 3}, epsilon, nullptr);
  float x = 0;
  const auto forward = [&](row_shape shape, float eps) {
    llmc::layernorm_forward(&x, &x, &x, &x, &x, &x, shape, eps, nullptr);
  };
  CHECK_THROWS_WITH(forward({2, 0}, epsilon),
                    "llmc::layernorm_forward: channels must be at least 1, got 0");
  CHECK_THROWS_WITH(
      (llmc::layernorm_forward<layernorm_forward_variant::row_in_registers, 64>(
          &x, &x, &x, &x, &x, &x, {1, 2049}, epsilon, nullptr)),
      "llmc::layernorm_forward: the variant row_in_registers takes at most 2048 channels with this "
      "block size, got 2049");
  const auto in_three = [&](float* mean, float* rstd) {
    llmc::layernorm_forward<layernorm_forward_variant::three_kernels, 96>(
        &x, mean, rstd, &x, &x, &x, {1, 1}, epsilon, nullptr);
  };
  const std::string needs_both =
      "llmc::layernorm_forward: the variant three_kernels hands mean and rstd from kernel to "
      "kernel, so neither may be null";
  CHECK_THROWS_WITH(in_three(nullptr, &x), needs_both);
  CHECK_THROWS_WITH(in_three(&x, nullptr), needs_both);
  CHECK_THROWS_AS(in_three(&x, nullptr), llmc::unsupported);
  CHECK_THROWS_AS(forward({1, 1}, -1.0f), llmc::invalid_argument);
  CHECK_THROWS_AS(forward({1, 1}, std::nanf("")), llmc::invalid_argument);
  CHECK_THROWS_AS(forward({std::int64_t{1} << 40, std::int64_t{1} << 30}, epsilon),
                  llmc::invalid_argument);
}
