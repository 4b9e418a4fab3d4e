#include <llmc/layernorm.cuh>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/layernorm_case.cuh"
#include "support/random.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::accumulation;
using llmc::layernorm_backward_variant;
using llmc::row_shape;

namespace {

/// A backward pass whose sums over the rows are of small multiples of a half, so that they are
/// exact in any order: atomics then give the same bits, too.
layernorm_case whole_number_case(row_shape shape) {
  layernorm_case c(shape);
  const auto make_whole = [](std::vector<float>& values, std::uint32_t seed) {
    const auto integers = random_integers(static_cast<std::int64_t>(values.size()), 5, seed);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(integers[i] - 2);
  };
  make_whole(c.inp, 5);
  make_whole(c.dout, 6);
  std::fill(c.mean.begin(), c.mean.end(), 1.0);
  std::fill(c.rstd.begin(), c.rstd.end(), 0.5);
  c.differentiate();
  return c;
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
    llmc::layernorm_backward<Variant, BlockSize>(dinp, dweight, dbias,
                                                 {workspace.get(), workspace.size()}, dout, inp,
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

TEMPLATE_TEST_CASE_SIG("layernorm_backward agrees with the reference", "[layernorm]",
                       ((layernorm_backward_variant Variant, int BlockSize), Variant, BlockSize),
                       (layernorm_backward_variant::automatic, 256),
                       (layernorm_backward_variant::shared_partials, 96),
                       (layernorm_backward_variant::shared_partials, 1024),
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

TEST_CASE("layernorm_backward by atomics adds every row once", "[layernorm]") {
  LLMC_REQUIRE_GPU();
  constexpr auto by_atomics = layernorm_backward_variant::thread_per_row;
  const std::int64_t rows = GENERATE(1, 31, 33, 300);
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  for (const std::int64_t channels : awkward_sizes) {
    const layernorm_case c = whole_number_case({rows, channels});
    for (const int misalignment : {0, 1}) check_backward<by_atomics, 96>(c, mode, misalignment);
  }
}

TEST_CASE("layernorm_backward takes wide rows and many rows", "[layernorm]") {
  LLMC_REQUIRE_GPU();
  for (const row_shape shape :
       {row_shape{3, 8192}, row_shape{65537, 8}, row_shape{4500, 100}, row_shape{1100, 1100}}) {
    const layernorm_case c(shape);
    check_backward<layernorm_backward_variant::automatic, 256>(c, accumulation::overwrite, 0);
    check_backward<layernorm_backward_variant::shared_partials, 96>(c, accumulation::overwrite, 0);
    check_backward<layernorm_backward_variant::thread_per_row, 96>(whole_number_case(shape),
                                                                   accumulation::overwrite, 0);
  }
  for (const std::int64_t channels : layernorm_row_lengths) {
    const layernorm_case c({19, channels});
    for (const int misalignment : {0, 1}) {
      check_backward<layernorm_backward_variant::automatic, 256>(c, accumulation::add,
                                                                 misalignment);
    }
  }
}

TEST_CASE("layernorm_backward in shared memory takes what fits there and no more", "[layernorm]") {
  LLMC_REQUIRE_GPU();
  constexpr auto in_shared_memory = layernorm_backward_variant::shared_partials;
  const std::int64_t most = llmc::detail::most_channels_in_shared_memory("test", 2);
  check_backward<in_shared_memory, 1024>(layernorm_case({19, most}), accumulation::overwrite, 0);
  const buffer<float> x(1);
  CHECK_THROWS_WITH((llmc::layernorm_backward<in_shared_memory, 1024>(
                        x, x, x, {x.get(), llmc::layernorm_backward_workspace_bytes({1, most + 1})},
                        x, x, x, x, x, {1, most + 1}, accumulation::add, nullptr)),
                    "llmc::layernorm_backward: the variant shared_partials takes at most " +
                        std::to_string(most) + " channels on this device, got " +
                        std::to_string(most + 1));
}

TEMPLATE_TEST_CASE_SIG("layernorm_backward may write dinp over dout", "[layernorm]",
                       ((layernorm_backward_variant Variant, int BlockSize), Variant, BlockSize),
                       (layernorm_backward_variant::automatic, 256),
                       (layernorm_backward_variant::thread_per_row, 96),
                       (layernorm_backward_variant::shared_partials, 96),
                       (layernorm_backward_variant::warp_per_row, 96)) {
  LLMC_REQUIRE_GPU();
  const layernorm_case c = whole_number_case({70, GENERATE(65, 768, 1600, 8193)});
  const buffer<float> inp(c.inp), weight(c.weight), mean(narrow(c.mean)), rstd(narrow(c.rstd));
  const buffer<unsigned char> workspace(
      static_cast<std::int64_t>(llmc::layernorm_backward_workspace_bytes(c.shape)));
  output dinp(c.dout), dweight(c.shape.channels), dbias(c.shape.channels);
  run({&dinp, &dweight, &dbias}, [&](cudaStream_t s) {
    llmc::layernorm_backward<Variant, BlockSize>(
        dinp, dweight, dbias, {workspace.get(), workspace.size()}, dinp, inp, weight, mean, rstd,
        c.shape, accumulation::overwrite, s);
  });
  check_close("dinp", dinp.values(), c.dinp, row_tolerance(c, 4.0));
  check_close("dweight", dweight.values(), c.dweight, sum_tolerance(70, 8 * largest_rstd(c)));
}

TEMPLATE_TEST_CASE_SIG("layernorm_backward over no rows gives zero or leaves what was there",
                       "[layernorm]",
                       ((layernorm_backward_variant Variant, int BlockSize), Variant, BlockSize),
                       (layernorm_backward_variant::automatic, 256),
                       (layernorm_backward_variant::thread_per_row, 96),
                       (layernorm_backward_variant::shared_partials, 96),
                       (layernorm_backward_variant::warp_per_row, 96)) {
  LLMC_REQUIRE_GPU();
  const accumulation mode = GENERATE(accumulation::overwrite, accumulation::add);
  output dweight(5, mode), dbias(5, mode);
  run({&dweight, &dbias}, [&](cudaStream_t s) {
    llmc::layernorm_backward<Variant, BlockSize>(nullptr, dweight, dbias, {}, nullptr, nullptr,
                                                 nullptr, nullptr, nullptr, {0, 5}, mode, s);
  });
  check_close("dweight", dweight.values(), expected_gradient({0, 0, 0, 0, 0}, mode), {0, 0});
  check_close("dbias", dbias.values(), expected_gradient({0, 0, 0, 0, 0}, mode), {0, 0});
}

TEST_CASE("layernorm_backward refuses bad arguments", "[layernorm]") {
  constexpr row_shape shape{2, 3};
  check_refusals("llmc::layernorm_backward", llmc::layernorm_backward<>, array{"dinp"},
                 array{"dweight"}, array{"dbias"},
                 needed_scratch{llmc::layernorm_backward_workspace_bytes(shape)}, array{"dout"},
                 array{"inp"}, array{"weight"}, array{"mean"}, array{"rstd"}, shape,
                 accumulation::add, nullptr);
  float x = 0;
  alignas(16) float scratch[4] = {};
  CHECK_THROWS_WITH(llmc::layernorm_backward(&x, nullptr, &x, {}, &x, &x, &x, &x, &x, {0, 2},
                                             accumulation::add, nullptr),
                    "llmc::layernorm_backward: dweight must not be null");
  const llmc::workspace large{scratch, llmc::layernorm_backward_workspace_bytes({1, 2049})};
  CHECK_THROWS_AS(
      (llmc::layernorm_backward<layernorm_backward_variant::register_partials, 64>(
          &x, &x, &x, large, &x, &x, &x, &x, &x, {1, 2049}, accumulation::add, nullptr)),
      llmc::unsupported);
  CHECK_THROWS_WITH(
      llmc::layernorm_backward_workspace_bytes({1, -3}),
      "llmc::layernorm_backward_workspace_bytes: channels must be at least 1, got -3");
}
