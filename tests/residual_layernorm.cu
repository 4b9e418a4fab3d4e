#include <llmc/reference/residual_layernorm.hpp>
#include <llmc/residual_layernorm.cuh>

#include <algorithm>
#include <limits>
#include <vector>

#include "support/column_sums.cuh"
#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/random.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::accumulation;
using llmc::residual_layernorm_backward_variant;
using llmc::residual_layernorm_forward_variant;
using llmc::row_shape;

namespace {

constexpr float epsilon = 1e-5f;

struct residual_layernorm_case {
  row_shape shape;
  std::vector<float> inp1, inp2, weight, bias, dout, dresidual;
  std::vector<float> residual;  // sums of two floats, rounded once: the same bits everywhere
  std::vector<double> out, mean, rstd, dinp, dweight, dbias;

  explicit residual_layernorm_case(row_shape s, double input_mean = 0.0) : shape(s) {
    const std::int64_t count = s.rows * s.channels;
    inp1 = random_normal(count, 1, 1.0, input_mean);
    inp2 = random_normal(count, 2);
    weight = random_normal(s.channels, 3);
    bias = random_normal(s.channels, 4);
    dout = random_normal(count, 5);
    dresidual = random_normal(count, 6);
    residual.resize(inp1.size());
    out.resize(inp1.size());
    dinp.resize(inp1.size());
    mean.resize(static_cast<std::size_t>(s.rows));
    rstd.resize(static_cast<std::size_t>(s.rows));
    dweight.resize(weight.size());
    dbias.resize(weight.size());
    llmc::reference::residual_forward(residual.data(), inp1.data(), inp2.data(), count);
    const std::vector<double> x = widen(residual), zero(x.size(), 0.0), w = widen(weight);
    std::vector<double> sum(x.size());
    llmc::reference::residual_layernorm_forward(sum.data(), out.data(), mean.data(), rstd.data(),
                                                x.data(), zero.data(), w.data(), widen(bias).data(),
                                                shape, epsilon);
    llmc::reference::residual_layernorm_backward(
        dinp.data(), static_cast<double*>(nullptr), dweight.data(), dbias.data(),
        widen(dout).data(), widen(dresidual).data(), x.data(), w.data(), mean.data(), rstd.data(),
        shape, accumulation::overwrite);
  }

  double largest_rstd() const {
    double largest = 1;
    for (const double r : rstd) largest = std::max(largest, r);
    return largest;
  }
  /// As in the test of layernorm: the error of the deviations is multiplied by rstd.
  tolerance row_tolerance(double input_scale) const {
    return sum_tolerance(shape.channels, 4 * input_scale * largest_rstd());
  }
  tolerance column_tolerance() const { return sum_tolerance(shape.rows, 8 * largest_rstd()); }
  std::int64_t workspace_bytes() const {
    return static_cast<std::int64_t>(llmc::residual_layernorm_backward_workspace_bytes(shape));
  }
};

template <residual_layernorm_forward_variant Variant, int BlockSize>
void check_forward(const residual_layernorm_case& c, double input_scale, int misalignment) {
  INFO("rows " << c.shape.rows << ", channels " << c.shape.channels << ", misalignment "
               << misalignment);
  const buffer<float> inp1(c.inp1, misalignment), inp2(c.inp2, misalignment), weight(c.weight),
      bias(c.bias);
  output residual(c.shape.rows * c.shape.channels, misalignment);
  output out(c.shape.rows * c.shape.channels, misalignment), mean(c.shape.rows), rstd(c.shape.rows);
  run({&residual, &out, &mean, &rstd}, [&](cudaStream_t s) {
    llmc::residual_layernorm_forward<Variant, BlockSize>(residual, out, mean, rstd, inp1, inp2,
                                                         weight, bias, c.shape, epsilon, s);
  });
  check_close("residual", residual.values(), c.residual, {0, 0});
  check_close("out", out.values(), c.out, c.row_tolerance(input_scale));
  check_close("mean", mean.values(), c.mean, sum_tolerance(c.shape.channels, input_scale));
  check_close("rstd", rstd.values(), c.rstd, {0, 1e-5 * input_scale});
}

template <residual_layernorm_backward_variant Variant, int BlockSize>
void check_backward(const residual_layernorm_case& c, accumulation mode, int misalignment) {
  INFO("rows " << c.shape.rows << ", channels " << c.shape.channels << ", misalignment "
               << misalignment << (mode == accumulation::add ? ", add" : ", overwrite"));
  const buffer<float> dout(c.dout, misalignment), dresidual(c.dresidual, misalignment),
      residual(c.residual), weight(c.weight), mean(narrow(c.mean)), rstd(narrow(c.rstd));
  const buffer<unsigned char> workspace(c.workspace_bytes());
  output dinp(c.shape.rows * c.shape.channels, misalignment);
  output dinp_bias(c.shape.channels, mode), dweight(c.shape.channels, mode),
      dbias(c.shape.channels, mode);
  run({&dinp, &dinp_bias, &dweight, &dbias}, [&](cudaStream_t s) {
    llmc::residual_layernorm_backward<Variant, BlockSize>(
        dinp, dinp_bias, dweight, dbias, {workspace.get(), workspace.size()}, dout, dresidual,
        residual, weight, mean, rstd, c.shape, mode, s);
  });
  CHECK(workspace.guards_intact());
  check_column_sums("dinp_bias", dinp_bias.values(), dinp.values(), mode);
  check_close("dinp", dinp.values(), c.dinp, c.row_tolerance(4.0));
  check_close("dweight", dweight.values(), expected_gradient(c.dweight, mode),
              c.column_tolerance());
  check_close("dbias", dbias.values(), expected_gradient(c.dbias, mode),
              sum_tolerance(c.shape.rows, 8.0));
}

/// How many rows `run` can take, which wants the same bits again. The warps of thread_per_row add
/// to the parameters' gradients in any order, so there may be only one.
template <residual_layernorm_backward_variant Variant>
constexpr std::int64_t most_rows =
    Variant == residual_layernorm_backward_variant::thread_per_row ? 32 : 300;

}  // namespace

TEMPLATE_TEST_CASE_SIG("residual_layernorm_forward agrees with the reference",
                       "[residual_layernorm]",
                       ((residual_layernorm_forward_variant Variant, int BlockSize), Variant,
                        BlockSize),
                       (residual_layernorm_forward_variant::automatic, 256),
                       (residual_layernorm_forward_variant::thread_per_row, 32),
                       (residual_layernorm_forward_variant::thread_per_row, 1024),
                       (residual_layernorm_forward_variant::separate_passes, 96),
                       (residual_layernorm_forward_variant::separate_passes, 512),
                       (residual_layernorm_forward_variant::warp_per_row, 32),
                       (residual_layernorm_forward_variant::warp_per_row, 96),
                       (residual_layernorm_forward_variant::warp_per_row, 1024),
                       (residual_layernorm_forward_variant::row_in_registers, 32),
                       (residual_layernorm_forward_variant::row_in_registers, 96),
                       (residual_layernorm_forward_variant::row_in_registers, 1024)) {
  LLMC_REQUIRE_GPU();
  const std::int64_t rows = GENERATE(1, 5, 33);
  for (const std::int64_t channels : awkward_sizes) {
    if (Variant == residual_layernorm_forward_variant::row_in_registers &&
        channels > 32 * BlockSize) {
      break;
    }
    const residual_layernorm_case c({rows, channels});
    for (const int misalignment : {0, 1}) check_forward<Variant, BlockSize>(c, 2.0, misalignment);
  }
}

TEMPLATE_TEST_CASE_SIG("residual_layernorm_forward keeps its digits where the mean is large",
                       "[residual_layernorm]",
                       ((residual_layernorm_forward_variant Variant), Variant),
                       residual_layernorm_forward_variant::automatic,
                       residual_layernorm_forward_variant::thread_per_row,
                       residual_layernorm_forward_variant::separate_passes,
                       residual_layernorm_forward_variant::warp_per_row) {
  LLMC_REQUIRE_GPU();
  const residual_layernorm_case c({17, 768}, 3000.0);
  check_forward<Variant, 256>(c, 3000.0, 0);
}

TEST_CASE("residual_layernorm takes wide rows and many rows", "[residual_layernorm]") {
  LLMC_REQUIRE_GPU();
  for (const row_shape shape : {row_shape{3, 8192}, row_shape{65537, 8}, row_shape{4500, 100},
                                row_shape{1100, 1100}, row_shape{9, 1024}, row_shape{9, 1028},
                                row_shape{9, 4100}, row_shape{9, 8193}, row_shape{9, 8196}}) {
    const residual_layernorm_case c(shape);
    check_forward<residual_layernorm_forward_variant::automatic, 256>(c, 2.0, 0);
    check_backward<residual_layernorm_backward_variant::automatic, 256>(c, accumulation::overwrite,
                                                                        0);
  }
}

TEMPLATE_TEST_CASE_SIG(
    "residual_layernorm_forward may write the sum over an input and leave out the statistics",
    "[residual_layernorm]", ((residual_layernorm_forward_variant Variant), Variant),
    residual_layernorm_forward_variant::automatic,
    residual_layernorm_forward_variant::thread_per_row,
    residual_layernorm_forward_variant::separate_passes,
    residual_layernorm_forward_variant::warp_per_row) {
  LLMC_REQUIRE_GPU();
  const std::int64_t channels = GENERATE(64, 65, 768, 1600, 8193);
  const residual_layernorm_case c({7, channels});
  const buffer<float> inp1(c.inp1), inp2(c.inp2), weight(c.weight), bias(c.bias);
  output over_inp1(c.inp1), over_inp2(c.inp2), out1(7 * channels), out2(7 * channels);
  run({&over_inp1, &over_inp2, &out1, &out2}, [&](cudaStream_t s) {
    llmc::residual_layernorm_forward<Variant>(over_inp1, out1, nullptr, nullptr, over_inp1, inp2,
                                              weight, bias, c.shape, epsilon, s);
    llmc::residual_layernorm_forward<Variant>(over_inp2, out2, nullptr, nullptr, inp1, over_inp2,
                                              weight, bias, c.shape, epsilon, s);
  });
  check_close("residual over inp1", over_inp1.values(), c.residual, {0, 0});
  check_close("residual over inp2", over_inp2.values(), c.residual, {0, 0});
  check_close("out beside inp1", out1.values(), c.out, c.row_tolerance(2.0));
  check_close("out beside inp2", out2.values(), c.out, c.row_tolerance(2.0));
}

TEMPLATE_TEST_CASE_SIG("residual_layernorm_backward agrees with the reference",
                       "[residual_layernorm]",
                       ((residual_layernorm_backward_variant Variant, int BlockSize), Variant,
                        BlockSize),
                       (residual_layernorm_backward_variant::automatic, 256),
                       (residual_layernorm_backward_variant::thread_per_row, 32),
                       (residual_layernorm_backward_variant::thread_per_row, 1024),
                       (residual_layernorm_backward_variant::separate_passes, 96),
                       (residual_layernorm_backward_variant::separate_passes, 512),
                       (residual_layernorm_backward_variant::warp_per_row, 32),
                       (residual_layernorm_backward_variant::warp_per_row, 96),
                       (residual_layernorm_backward_variant::warp_per_row, 1024),
                       (residual_layernorm_backward_variant::register_partials, 32),
                       (residual_layernorm_backward_variant::register_partials, 96),
                       (residual_layernorm_backward_variant::register_partials, 512)) {
  LLMC_REQUIRE_GPU();
  const std::int64_t rows = std::min<std::int64_t>(GENERATE(1, 33, 300), most_rows<Variant>);
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  for (const std::int64_t channels : awkward_sizes) {
    if (Variant == residual_layernorm_backward_variant::register_partials &&
        channels > 32 * BlockSize) {
      break;
    }
    const residual_layernorm_case c({rows, channels});
    for (const int misalignment : {0, 1}) {
      check_backward<Variant, BlockSize>(c, mode, misalignment);
    }
  }
}

TEST_CASE("residual_layernorm_backward refuses to sum dinp in more memory than blocks have",
          "[residual_layernorm]") {
  constexpr std::int64_t unasked = 48 * 1024;
  int fitting = 0;
  for (int block_size = 32; block_size <= 1024; block_size += 32) {
    for (std::int64_t channels = 4; channels <= 32 * block_size; channels += 4) {
      if (!llmc::detail::fits_dinp_sums(channels, block_size)) continue;
      // A warp, or else the block, has a sum a column, and two sums of up to 128 columns to store.
      const std::int64_t warps = block_size / 32;
      const std::int64_t floats = channels <= 1024 ? warps * (channels + 2 * 128) : channels + 33;
      if (floats * 4 > unasked) FAIL(block_size << " threads, " << channels << " channels");
      ++fitting;
    }
  }
  CHECK(fitting > 1000);
  CHECK(llmc::detail::fits_dinp_sums(768, 256));
}

TEST_CASE("residual_layernorm_backward sums dinp in blocks with little room for it",
          "[residual_layernorm]") {
  LLMC_REQUIRE_GPU();
  constexpr auto automatic = residual_layernorm_backward_variant::automatic;
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  for (const std::int64_t channels : {64, 128, 256, 384, 640, 1024}) {
    const residual_layernorm_case c({70, channels});
    check_backward<automatic, 256>(c, mode, 0);
    check_backward<automatic, 512>(c, mode, 0);
    check_backward<automatic, 1024>(c, mode, 0);
  }
}

TEMPLATE_TEST_CASE_SIG("residual_layernorm_backward may write dinp over dout or dresidual",
                       "[residual_layernorm]",
                       ((residual_layernorm_backward_variant Variant), Variant),
                       residual_layernorm_backward_variant::automatic,
                       residual_layernorm_backward_variant::thread_per_row,
                       residual_layernorm_backward_variant::separate_passes,
                       residual_layernorm_backward_variant::warp_per_row) {
  LLMC_REQUIRE_GPU();
  const bool over_dout = GENERATE(true, false);
  const std::int64_t channels = GENERATE(64, 65, 768, 1600, 8193);
  const std::int64_t rows = std::min<std::int64_t>(70, most_rows<Variant>);
  const residual_layernorm_case c({rows, channels});
  const buffer<float> dout(c.dout), dresidual(c.dresidual), residual(c.residual), weight(c.weight),
      mean(narrow(c.mean)), rstd(narrow(c.rstd));
  const buffer<unsigned char> workspace(c.workspace_bytes());
  output dinp(over_dout ? c.dout : c.dresidual), dinp_bias(channels), dweight(channels),
      dbias(channels);
  run({&dinp, &dinp_bias, &dweight, &dbias}, [&](cudaStream_t s) {
    llmc::residual_layernorm_backward<Variant>(
        dinp, dinp_bias, dweight, dbias, {workspace.get(), workspace.size()},
        over_dout ? dinp : dout.get(), over_dout ? dresidual.get() : dinp, residual, weight, mean,
        rstd, c.shape, accumulation::overwrite, s);
  });
  check_column_sums("dinp_bias", dinp_bias.values(), dinp.values(), accumulation::overwrite);
  check_close("dinp", dinp.values(), c.dinp, c.row_tolerance(4.0));
  check_close("dweight", dweight.values(), c.dweight, c.column_tolerance());
  check_close("dbias", dbias.values(), c.dbias, sum_tolerance(rows, 8.0));
}

TEMPLATE_TEST_CASE_SIG(
    "residual_layernorm_backward takes a null dresidual for 0, and a null dinp_bias",
    "[residual_layernorm]", ((residual_layernorm_backward_variant Variant), Variant),
    residual_layernorm_backward_variant::automatic,
    residual_layernorm_backward_variant::thread_per_row,
    residual_layernorm_backward_variant::separate_passes,
    residual_layernorm_backward_variant::warp_per_row) {
  LLMC_REQUIRE_GPU();
  const std::int64_t channels = GENERATE(64, 65, 768, 1600, 8193);
  const std::int64_t rows = std::min<std::int64_t>(70, most_rows<Variant>);
  const residual_layernorm_case c({rows, channels});
  const buffer<float> dout(c.dout), residual(c.residual), weight(c.weight), mean(narrow(c.mean)),
      rstd(narrow(c.rstd));
  const buffer<unsigned char> workspace(c.workspace_bytes());
  output dinp(rows * channels), dweight(channels), dbias(channels);
  run({&dinp, &dweight, &dbias}, [&](cudaStream_t s) {
    llmc::residual_layernorm_backward<Variant>(
        dinp, nullptr, dweight, dbias, {workspace.get(), workspace.size()}, dout, nullptr, residual,
        weight, mean, rstd, c.shape, accumulation::overwrite, s);
  });
  std::vector<double> expected = c.dinp;
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= c.dresidual[i];
  check_close("dinp", dinp.values(), expected, c.row_tolerance(4.0));
}

TEMPLATE_TEST_CASE_SIG(
    "residual_layernorm_backward over no rows gives zero or leaves what was there",
    "[residual_layernorm]", ((residual_layernorm_backward_variant Variant), Variant),
    residual_layernorm_backward_variant::automatic,
    residual_layernorm_backward_variant::thread_per_row,
    residual_layernorm_backward_variant::separate_passes,
    residual_layernorm_backward_variant::warp_per_row) {
  LLMC_REQUIRE_GPU();
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  output dinp_bias(5, mode), dweight(5, mode), dbias(5, mode);
  run({&dinp_bias, &dweight, &dbias}, [&](cudaStream_t s) {
    llmc::residual_layernorm_backward<Variant>(nullptr, dinp_bias, dweight, dbias, {}, nullptr,
                                               nullptr, nullptr, nullptr, nullptr, nullptr, {0, 5},
                                               mode, s);
  });
  check_close("dinp_bias", dinp_bias.values(), expected_gradient({0, 0, 0, 0, 0}, mode), {0, 0});
  check_close("dweight", dweight.values(), expected_gradient({0, 0, 0, 0, 0}, mode), {0, 0});
  check_close("dbias", dbias.values(), expected_gradient({0, 0, 0, 0, 0}, mode), {0, 0});
}

TEST_CASE("residual_layernorm_forward refuses bad arguments", "[residual_layernorm]") {
  check_refusals("llmc::residual_layernorm_forward", llmc::residual_layernorm_forward<>,
                 array{"residual"}, array{"out"}, optional_array{}, optional_array{}, array{"inp1"},
                 array{"inp2"}, array{"weight"}, array{"bias"}, row_shape{2, 3}, epsilon, nullptr);
  float x = 0;
  const auto forward = [&](row_shape shape, float eps) {
    llmc::residual_layernorm_forward(&x, &x, &x, &x, &x, &x, &x, &x, shape, eps, nullptr);
  };
  CHECK_NOTHROW(forward({0, 4}, epsilon));
  CHECK_THROWS_WITH(forward({1, 0}, epsilon),
                    "llmc::residual_layernorm_forward: channels must be at least 1, got 0");
  CHECK_THROWS_AS(
      (llmc::residual_layernorm_forward<residual_layernorm_forward_variant::row_in_registers, 64>(
          &x, &x, &x, &x, &x, &x, &x, &x, {1, 2049}, epsilon, nullptr)),
      llmc::unsupported);
  for (const float eps :
       {-1.0f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    CHECK_THROWS_AS(forward({1, 1}, eps), llmc::invalid_argument);
  }
}

TEMPLATE_TEST_CASE_SIG("residual_layernorm_backward refuses bad arguments", "[residual_layernorm]",
                       ((residual_layernorm_backward_variant Variant), Variant),
                       residual_layernorm_backward_variant::automatic,
                       residual_layernorm_backward_variant::thread_per_row,
                       residual_layernorm_backward_variant::separate_passes,
                       residual_layernorm_backward_variant::warp_per_row) {
  constexpr row_shape shape{2, 3};
  check_refusals("llmc::residual_layernorm_backward", llmc::residual_layernorm_backward<Variant>,
                 array{"dinp"}, optional_array{}, array{"dweight"}, array{"dbias"},
                 needed_scratch{llmc::residual_layernorm_backward_workspace_bytes(shape)},
                 array{"dout"}, optional_array{}, array{"residual"}, array{"weight"}, array{"mean"},
                 array{"rstd"}, shape, accumulation::add, nullptr);
  float x = 0;
  alignas(16) float scratch[4] = {};
  const llmc::workspace large{scratch,
                              llmc::residual_layernorm_backward_workspace_bytes({1, 2049})};
  CHECK_THROWS_AS(
      (llmc::residual_layernorm_backward<residual_layernorm_backward_variant::register_partials,
                                         64>(&x, &x, &x, &x, large, &x, nullptr, &x, &x, &x, &x,
                                             {1, 2049}, accumulation::add, nullptr)),
      llmc::unsupported);
}
