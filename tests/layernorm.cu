#include <llmc/layernorm.cuh>
#include <llmc/reference/layernorm.hpp>

#include <algorithm>
#include <vector>

#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/random.hpp"
#include "support/sizes.hpp"

using namespace llmc_test;
using llmc::accumulation;
using llmc::layernorm_backward_variant;
using llmc::layernorm_forward_variant;
using llmc::row_shape;

namespace {

constexpr float epsilon = 1e-5f;

/// What takes each way through the kernels: some and all of a warp's or a block's registers, one
/// more than fits.
const std::vector<std::int64_t> row_lengths =
    sweep({256, 260, 1024, 1025, 1028, 2052, 4100, 6148, 8192, 8193, 8196});

struct layernorm_case {
  row_shape shape;
  std::vector<float> inp, weight, bias, dout;
  std::vector<double> out, mean, rstd, dinp, dweight, dbias;

  explicit layernorm_case(row_shape s, double input_mean = 0.0) : shape(s) {
    const std::int64_t count = s.rows * s.channels;
    inp = random_normal(count, 1, 1.0, input_mean);
    weight = random_normal(s.channels, 2);
    bias = random_normal(s.channels, 3);
    dout = random_normal(count, 4);
    out.resize(inp.size());
    dinp.resize(inp.size());
    mean.resize(static_cast<std::size_t>(s.rows));
    rstd.resize(static_cast<std::size_t>(s.rows));
    dweight.resize(weight.size());
    dbias.resize(weight.size());
    llmc::reference::layernorm_forward(out.data(), mean.data(), rstd.data(), widen(inp).data(),
                                       widen(weight).data(), widen(bias).data(), shape, epsilon);
    llmc::reference::layernorm_backward(dinp.data(), dweight.data(), dbias.data(),
                                        widen(dout).data(), widen(inp).data(), widen(weight).data(),
                                        mean.data(), rstd.data(), shape, accumulation::overwrite);
  }
};

double largest_rstd(const layernorm_case& c) {
  double largest = 1;
  for (const double r : c.rstd) largest = std::max(largest, r);
  return largest;
}

/// The tolerance of a normalised row. A mean far from 0 costs digits of the deviations, and rstd
/// multiplies that error: with C = 1 it is 1 / sqrt(epsilon).
tolerance row_tolerance(const layernorm_case& c, double input_scale) {
  return sum_tolerance(c.shape.channels, 4 * input_scale * largest_rstd(c));
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
  check_close("out", out.values(), c.out, row_tolerance(c, input_scale));
  check_close("mean", mean.values(), c.mean, sum_tolerance(c.shape.channels, input_scale));
  check_close("rstd", rstd.values(), c.rstd, {0, 1e-5 * input_scale});
}

template <layernorm_backward_variant Variant, int BlockSize>
void check_backward(const layernorm_case& c, accumulation mode, int misalignment) {
  INFO("rows " << c.shape.rows << ", channels " << c.shape.channels << ", misalignment "
               << misalignment << (mode == accumulation::add ? ", add" : ", overwrite"));
  const buffer<float> dout(c.dout, misalignment), inp(c.inp, misalignment),
      weight(c.weight, misalignment), mean(narrow(c.mean)), rstd(narrow(c.rstd));
  const buffer<unsigned char> workspace(
      static_cast<std::int64_t>(llmc::layernorm_backward_workspace_bytes(c.shape)));
  output dinp(c.shape.rows * c.shape.channels, misalignment);
  output dweight(c.shape.channels, mode), dbias(c.shape.channels, mode);
  run({&dinp, &dweight, &dbias}, [&](cudaStream_t s) {
    llmc::layernorm_backward<Variant, BlockSize>(dinp, dweight, dbias, workspace.get(), dout, inp,
                                                 weight, mean, rstd, c.shape, mode, s);
  });
  CHECK(workspace.guards_intact());
  const double norm_scale = 8;  // the largest of a few thousand normal numbers, with room
  check_close("dinp", dinp.values(), c.dinp, row_tolerance(c, 4.0));
  check_close("dweight", dweight.values(), expected_gradient(c.dweight, mode),
              sum_tolerance(c.shape.rows, norm_scale * largest_rstd(c)));
  check_close("dbias", dbias.values(), expected_gradient(c.dbias, mode),
              sum_tolerance(c.shape.rows, norm_scale));
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("layernorm_forward agrees with the reference", "[layernorm]",
                       ((layernorm_forward_variant Variant, int BlockSize), Variant, BlockSize),
                       (layernorm_forward_variant::automatic, 256),
                       (layernorm_forward_variant::warp_per_row, 32),
                       (layernorm_forward_variant::warp_per_row, 96),
                       (layernorm_forward_variant::warp_per_row, 1024),
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

TEST_CASE("layernorm_forward keeps its digits where the mean is large", "[layernorm]") {
  LLMC_REQUIRE_GPU();
  // One-pass variance, E[x^2] - E[x]^2, has none left here.
  const layernorm_case c({17, 768}, 3000.0);
  check_forward<layernorm_forward_variant::automatic, 256>(c, 3000.0, 0);
}

TEST_CASE("layernorm_forward takes rows of any length", "[layernorm]") {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t channels : row_lengths) {
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

TEST_CASE("layernorm_forward may write over its input and leave out the statistics",
          "[layernorm]") {
  LLMC_REQUIRE_GPU();
  const layernorm_case c({7, GENERATE(65, 768, 1600, 8193)});
  const buffer<float> weight(c.weight), bias(c.bias);
  output out(c.inp);
  run({&out}, [&](cudaStream_t s) {
    llmc::layernorm_forward(out, nullptr, nullptr, out, weight, bias, c.shape, epsilon, s);
  });
  check_close("out", out.values(), c.out, row_tolerance(c, 1.0));
}

TEMPLATE_TEST_CASE_SIG("layernorm_backward agrees with the reference", "[layernorm]",
                       ((layernorm_backward_variant Variant, int BlockSize), Variant, BlockSize),
                       (layernorm_backward_variant::automatic, 256),
                       (layernorm_backward_variant::warp_per_row, 32),
                       (layernorm_backward_variant::warp_per_row, 96),
                       (layernorm_backward_variant::warp_per_row, 1024),
                       (layernorm_backward_variant::register_partials, 32),
                       (layernorm_backward_variant::register_partials, 96),
                       (layernorm_backward_variant::register_partials, 512)) {
  LLMC_REQUIRE_GPU();
  const std::int64_t rows = GENERATE(1, 5, 33, 300);
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  for (const std::int64_t channels : awkward_sizes) {
    if (Variant == layernorm_backward_variant::register_partials && channels > 32 * BlockSize) {
      break;
    }
    const layernorm_case c({rows, channels});
    for (const int misalignment : {0, 1}) {
      check_backward<Variant, BlockSize>(c, mode, misalignment);
    }
  }
}

TEST_CASE("layernorm_backward takes wide rows and many rows", "[layernorm]") {
  LLMC_REQUIRE_GPU();
  for (const row_shape shape :
       {row_shape{3, 8192}, row_shape{65537, 8}, row_shape{4500, 100}, row_shape{1100, 1100}}) {
    check_backward<layernorm_backward_variant::automatic, 256>(layernorm_case(shape),
                                                               accumulation::overwrite, 0);
  }
  for (const std::int64_t channels : row_lengths) {
    const layernorm_case c({19, channels});
    for (const int misalignment : {0, 1}) {
      check_backward<layernorm_backward_variant::automatic, 256>(c, accumulation::add,
                                                                 misalignment);
    }
  }
}

TEST_CASE("layernorm_backward may write dinp over dout", "[layernorm]") {
  LLMC_REQUIRE_GPU();
  const layernorm_case c({70, GENERATE(65, 768, 1600, 8193)});
  const buffer<float> inp(c.inp), weight(c.weight), mean(narrow(c.mean)), rstd(narrow(c.rstd));
  const buffer<unsigned char> workspace(
      static_cast<std::int64_t>(llmc::layernorm_backward_workspace_bytes(c.shape)));
  output dinp(c.dout), dweight(c.shape.channels), dbias(c.shape.channels);
  run({&dinp, &dweight, &dbias}, [&](cudaStream_t s) {
    llmc::layernorm_backward(dinp, dweight, dbias, workspace.get(), dinp, inp, weight, mean, rstd,
                             c.shape, accumulation::overwrite, s);
  });
  check_close("dinp", dinp.values(), c.dinp, row_tolerance(c, 4.0));
  check_close("dweight", dweight.values(), c.dweight, sum_tolerance(70, 8 * largest_rstd(c)));
}

TEST_CASE("layernorm_backward over no rows gives zero or leaves what was there", "[layernorm]") {
  LLMC_REQUIRE_GPU();
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  output dweight(5, mode), dbias(5, mode);
  run({&dweight, &dbias}, [&](cudaStream_t s) {
    llmc::layernorm_backward(nullptr, dweight, dbias, nullptr, nullptr, nullptr, nullptr, nullptr,
                             nullptr, {0, 5}, mode, s);
  });
  check_close("dweight", dweight.values(), expected_gradient({0, 0, 0, 0, 0}, mode), {0, 0});
  check_close("dbias", dbias.values(), expected_gradient({0, 0, 0, 0, 0}, mode), {0, 0});
}

TEST_CASE("layernorm_forward refuses bad arguments", "[layernorm]") {
  float x = 0;
  const auto forward = [&](float* out, const float* inp, row_shape shape, float eps) {
    llmc::layernorm_forward(out, &x, &x, inp, &x, &x, shape, eps, nullptr);
  };
  CHECK_THROWS_WITH(forward(&x, &x, {-1, 4}, epsilon),
                    "llmc::layernorm_forward: rows must be at least 0, got -1");
  CHECK_THROWS_WITH(forward(&x, &x, {2, 0}, epsilon),
                    "llmc::layernorm_forward: channels must be at least 1, got 0");
  CHECK_THROWS_WITH(forward(nullptr, &x, {1, 1}, epsilon),
                    "llmc::layernorm_forward: out must not be null");
  CHECK_THROWS_WITH(forward(&x, nullptr, {1, 1}, epsilon),
                    "llmc::layernorm_forward: inp must not be null");
  CHECK_THROWS_WITH(
      (llmc::layernorm_forward<layernorm_forward_variant::row_in_registers, 64>(
          &x, &x, &x, &x, &x, &x, {1, 2049}, epsilon, nullptr)),
      "llmc::layernorm_forward: the variant row_in_registers takes at most 2048 channels with this "
      "block size, got 2049");
  CHECK_THROWS_AS(forward(&x, &x, {1, 1}, -1.0f), llmc::invalid_argument);
  CHECK_THROWS_AS(forward(&x, &x, {1, 1}, std::nanf("")), llmc::invalid_argument);
  CHECK_THROWS_AS(forward(&x, &x, {std::int64_t{1} << 40, std::int64_t{1} << 30}, epsilon),
                  llmc::invalid_argument);
}

TEST_CASE("layernorm_backward refuses bad arguments", "[layernorm]") {
  float x = 0;
  const auto backward = [&](float* dinp, float* dweight, void* workspace, row_shape shape) {
    llmc::layernorm_backward(dinp, dweight, &x, workspace, &x, &x, &x, &x, &x, shape,
                             accumulation::add, nullptr);
  };
  CHECK_THROWS_WITH(backward(&x, &x, &x, {-1, 4}),
                    "llmc::layernorm_backward: rows must be at least 0, got -1");
  CHECK_THROWS_WITH(backward(nullptr, &x, &x, {1, 1}),
                    "llmc::layernorm_backward: dinp must not be null");
  CHECK_THROWS_WITH(backward(&x, nullptr, &x, {0, 1}),
                    "llmc::layernorm_backward: dweight must not be null");
  CHECK_THROWS_WITH(backward(&x, &x, nullptr, {1, 1}),
                    "llmc::layernorm_backward: workspace must not be null");
  CHECK_THROWS_AS((llmc::layernorm_backward<layernorm_backward_variant::register_partials, 64>(
                      &x, &x, &x, &x, &x, &x, &x, &x, &x, {1, 2049}, accumulation::add, nullptr)),
                  llmc::unsupported);
  CHECK_THROWS_WITH(
      llmc::layernorm_backward_workspace_bytes({1, -3}),
      "llmc::layernorm_backward_workspace_bytes: channels must be at least 1, got -3");
}
