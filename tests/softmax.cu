#include <llmc/reference/softmax.hpp>
#include <llmc/softmax.cuh>

#include <string>
#include <tuple>
#include <vector>

#include "support/classifier_case.cuh"
#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/random.hpp"
#include "support/refusal.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::row_shape;
using llmc::softmax_backward_variant;
using llmc::softmax_forward_variant;

namespace {

struct softmax_case {
  row_shape shape;
  double range;  ///< between the largest and the smallest score
  std::vector<float> inp, dout;
  std::vector<double> out, dinp;

  explicit softmax_case(row_shape s, double deviation = 1.0) : shape(s), range(12 * deviation) {
    inp = random_normal(s.rows * s.channels, 1, deviation);
    dout = random_normal(s.rows * s.channels, 2);
    out.resize(inp.size());
    dinp.resize(inp.size());
    llmc::reference::softmax_forward(out.data(), widen(inp).data(), shape);
    llmc::reference::softmax_backward(dinp.data(), widen(dout).data(), out.data(), shape);
  }
};

template <softmax_forward_variant Variant, int BlockSize>
void check_forward(const softmax_case& c, int misalignment) {
  INFO("rows " << c.shape.rows << ", channels " << c.shape.channels << ", misalignment "
               << misalignment);
  const buffer<float> inp(c.inp, misalignment);
  output out(c.shape.rows * c.shape.channels, misalignment);
  run({&out},
      [&](cudaStream_t s) { llmc::softmax_forward<Variant, BlockSize>(out, inp, c.shape, s); });
  check_close("out", out.values(), c.out, probability_tolerance(c.shape.channels, c.range));
}

/// dout - sum(dout * out), of which the sum is over numbers that add up to a few units.
tolerance gradient_tolerance(const softmax_case& c) {
  return sum_tolerance(c.shape.channels, 2.0);
}

template <softmax_backward_variant Variant, int BlockSize>
void check_backward(const softmax_case& c, int misalignment) {
  INFO("rows " << c.shape.rows << ", channels " << c.shape.channels << ", misalignment "
               << misalignment);
  const buffer<float> dout(c.dout, misalignment), out(narrow(c.out), misalignment);
  output dinp(c.shape.rows * c.shape.channels, misalignment);
  run({&dinp}, [&](cudaStream_t s) {
    llmc::softmax_backward<Variant, BlockSize>(dinp, dout, out, c.shape, s);
  });
  check_close("dinp", dinp.values(), c.dinp, gradient_tolerance(c));
}

/// A variant with a block size, for lists that several test cases share.
template <auto Variant, int BlockSize>
struct with {
  static constexpr auto variant = Variant;
  static constexpr int block_size = BlockSize;
};
using forward_ladder = std::tuple<with<softmax_forward_variant::automatic, 256>,
                                  with<softmax_forward_variant::thread_per_row, 32>,
                                  with<softmax_forward_variant::online_thread_per_row, 96>,
                                  with<softmax_forward_variant::block_reduction, 96>,
                                  with<softmax_forward_variant::warp_per_row, 96>,
                                  with<softmax_forward_variant::online_warp_per_row, 96>>;
using forward_ladder_and_on_chip = decltype(std::tuple_cat(
    forward_ladder{}, std::tuple<with<softmax_forward_variant::row_on_chip, 32>>{}));
using backward_ladder = std::tuple<with<softmax_backward_variant::automatic, 256>,
                                   with<softmax_backward_variant::thread_per_row, 32>,
                                   with<softmax_backward_variant::warp_per_row, 96>>;

}  // namespace

TEMPLATE_TEST_CASE_SIG(
    "softmax_forward agrees with the reference", "[softmax]",
    ((softmax_forward_variant Variant, int BlockSize), Variant, BlockSize),
    (softmax_forward_variant::automatic, 256), (softmax_forward_variant::thread_per_row, 32),
    (softmax_forward_variant::online_thread_per_row, 96),
    (softmax_forward_variant::block_reduction, 96),
    (softmax_forward_variant::block_reduction, 1024), (softmax_forward_variant::warp_per_row, 96),
    (softmax_forward_variant::online_warp_per_row, 96),
    (softmax_forward_variant::block_per_row, 32), (softmax_forward_variant::block_per_row, 96),
    (softmax_forward_variant::block_per_row, 1024), (softmax_forward_variant::row_on_chip, 32),
    (softmax_forward_variant::row_on_chip, 96), (softmax_forward_variant::row_on_chip, 1024)) {
  LLMC_REQUIRE_GPU();
  const bool on_chip = Variant == softmax_forward_variant::row_on_chip;
  const std::int64_t rows = GENERATE(1, 5, 33);
  for (const std::int64_t channels : awkward_sizes) {
    if (on_chip && channels % 4 != 0) continue;
    const softmax_case c({rows, channels});
    for (const int misalignment : {0, 1}) {
      if (on_chip && misalignment != 0) continue;
      check_forward<Variant, BlockSize>(c, misalignment);
    }
  }
}

TEST_CASE("softmax_forward keeps rows in registers and in shared memory", "[softmax]") {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t channels : {2812, 2816, 2820, 2944, 2948, 9000}) {
    check_forward<softmax_forward_variant::row_on_chip, 32>(softmax_case({5, channels}), 0);
  }
  for (const std::int64_t channels : {8188, 8192, 22528, 22532, 50304}) {
    const softmax_case c({5, channels});
    for (const int misalignment : {0, 1}) {
      check_forward<softmax_forward_variant::automatic, 256>(c, misalignment);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("softmax_forward takes long rows, many rows and large scores", "[softmax]",
                        forward_ladder) {
  LLMC_REQUIRE_GPU();
  for (const row_shape shape : {row_shape{3, 100003}, row_shape{65537, 8}}) {
    check_forward<TestType::variant, TestType::block_size>(softmax_case(shape), 0);
  }
  check_forward<TestType::variant, TestType::block_size>(softmax_case({7, 1025}, 30.0), 0);
}

TEMPLATE_LIST_TEST_CASE("softmax_forward follows the formula at infinities and NaN", "[softmax]",
                        forward_ladder_and_on_chip) {
  LLMC_REQUIRE_GPU();
  constexpr std::int64_t channels = 4000;  // more turns of some threads, fewer of others
  struct {
    float everywhere, first, middle, last;
  } const rows[] = {{-infinity, -infinity, 10, -infinity},
                    {-infinity, 3e38f, -3e38f, -infinity},
                    {-3e38f, 3e38f, -infinity, 0},
                    {-infinity, -infinity, -infinity, 7},
                    {-infinity, -infinity, -infinity, -infinity},
                    {0, 1, infinity, -infinity},
                    {-infinity, not_a_number, -infinity, 1}};
  constexpr std::int64_t with_a_softmax = 4;
  constexpr std::int64_t row_count = 7;
  std::vector<float> values;
  for (const auto& row : rows) {
    std::vector<float> scores(channels, row.everywhere);
    scores.front() = row.first;
    scores[channels / 2] = row.middle;
    scores.back() = row.last;
    values.insert(values.end(), scores.begin(), scores.end());
  }
  std::vector<double> expected(with_a_softmax * channels);
  llmc::reference::softmax_forward(expected.data(), widen(values).data(),
                                   {with_a_softmax, channels});

  const buffer<float> inp(values);
  output out(row_count * channels);
  run({&out}, [&](cudaStream_t s) {
    llmc::softmax_forward<TestType::variant, TestType::block_size>(out, inp, {row_count, channels},
                                                                   s);
  });
  const std::vector<float> actual = out.values();
  const auto boundary = actual.begin() + with_a_softmax * channels;
  check_close("out", std::vector<float>(actual.begin(), boundary), expected, {0, 0});
  CHECK(all_nan(std::vector<float>(boundary, actual.end())));
}

TEMPLATE_LIST_TEST_CASE("softmax_forward may write over its input", "[softmax]", forward_ladder) {
  LLMC_REQUIRE_GPU();
  const softmax_case c({7, GENERATE(3001, 30000)});
  output out(c.inp);
  run({&out}, [&](cudaStream_t s) {
    llmc::softmax_forward<TestType::variant, TestType::block_size>(out, out, c.shape, s);
  });
  check_close("out", out.values(), c.out, probability_tolerance(c.shape.channels, c.range));
}

TEMPLATE_TEST_CASE_SIG(
    "softmax_backward agrees with the reference", "[softmax]",
    ((softmax_backward_variant Variant, int BlockSize), Variant, BlockSize),
    (softmax_backward_variant::automatic, 256), (softmax_backward_variant::thread_per_row, 32),
    (softmax_backward_variant::warp_per_row, 96), (softmax_backward_variant::block_per_row, 32),
    (softmax_backward_variant::block_per_row, 96), (softmax_backward_variant::block_per_row, 1024),
    (softmax_backward_variant::row_on_chip, 32), (softmax_backward_variant::row_on_chip, 96),
    (softmax_backward_variant::row_on_chip, 1024)) {
  LLMC_REQUIRE_GPU();
  const bool on_chip = Variant == softmax_backward_variant::row_on_chip;
  const std::int64_t rows = GENERATE(1, 5, 33);
  for (const std::int64_t channels : awkward_sizes) {
    if (on_chip && channels % 4 != 0) continue;
    const softmax_case c({rows, channels});
    for (const int misalignment : {0, 1}) {
      if (on_chip && misalignment != 0) continue;
      check_backward<Variant, BlockSize>(c, misalignment);
    }
  }
}

TEST_CASE("softmax_backward keeps rows in registers and in shared memory", "[softmax]") {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t channels : {2812, 2816, 2820, 2944, 2948, 9000}) {
    check_backward<softmax_backward_variant::row_on_chip, 32>(softmax_case({5, channels}), 0);
  }
  for (const std::int64_t channels : {8188, 8192, 45056, 45060, 50304, 60000}) {
    const softmax_case c({5, channels});
    for (const int misalignment : {0, 1}) {
      check_backward<softmax_backward_variant::automatic, 512>(c, misalignment);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("softmax_backward takes long rows and many rows", "[softmax]",
                        backward_ladder) {
  LLMC_REQUIRE_GPU();
  for (const row_shape shape : {row_shape{3, 100003}, row_shape{65537, 8}}) {
    check_backward<TestType::variant, TestType::block_size>(softmax_case(shape), 0);
  }
}

TEMPLATE_LIST_TEST_CASE("softmax_backward may write dinp over dout", "[softmax]", backward_ladder) {
  LLMC_REQUIRE_GPU();
  const softmax_case c({7, GENERATE(3001, 30000)});
  const buffer<float> out(narrow(c.out));
  output dinp(c.dout);
  run({&dinp}, [&](cudaStream_t s) {
    llmc::softmax_backward<TestType::variant, TestType::block_size>(dinp, dinp, out, c.shape, s);
  });
  check_close("dinp", dinp.values(), c.dinp, gradient_tolerance(c));
}

TEST_CASE("softmax_forward refuses what it cannot do", "[softmax]") {
  check_refusals("llmc::softmax_forward", llmc::softmax_forward<>, array{"out"}, array{"inp"},
                 row_shape{2, 3}, nullptr);
  check_refused("llmc::softmax_forward: channels must be at least 1, got 0", [] {
    llmc::softmax_forward(nullptr, nullptr, {1, 0}, nullptr);
  });
  llmc::softmax_forward(nullptr, nullptr, {0, 1}, nullptr);  // nothing to do
  float x = 0;
  CHECK_THROWS_AS((llmc::softmax_forward<softmax_forward_variant::row_on_chip, 256>(
                      &x, &x, {1, 4097}, nullptr)),
                  llmc::unsupported);
}

TEST_CASE("softmax_backward refuses what it cannot do", "[softmax]") {
  check_refusals("llmc::softmax_backward", llmc::softmax_backward<>, array{"dinp"}, array{"dout"},
                 array{"out"}, row_shape{2, 3}, nullptr);
  check_refused("llmc::softmax_backward: channels must be at least 1, got 0", [] {
    llmc::softmax_backward(nullptr, nullptr, nullptr, {1, 0}, nullptr);
  });
  llmc::softmax_backward(nullptr, nullptr, nullptr, {0, 1}, nullptr);  // nothing to do
  float x = 0;
  CHECK_THROWS_AS((llmc::softmax_backward<softmax_backward_variant::row_on_chip, 256>(
                      &x, &x, &x, {1, 4097}, nullptr)),
                  llmc::unsupported);
}

TEST_CASE("softmax by row_on_chip takes no row that does not fit", "[softmax]") {
  LLMC_REQUIRE_GPU();
  const row_shape wide{1, 400000};
  const buffer<float> out(wide.channels), inp(wide.channels), dinp(wide.channels);
  const stream s;
  const std::string why =
      "the variant row_on_chip takes rows that begin at 16-byte boundaries and fit the registers "
      "and the shared memory of this device, got 400000 columns";
  CHECK_THROWS_WITH(
      (llmc::softmax_forward<softmax_forward_variant::row_on_chip, 512>(out, inp, wide, s)),
      "llmc::softmax_forward: " + why);
  CHECK_THROWS_WITH(
      (llmc::softmax_backward<softmax_backward_variant::row_on_chip, 512>(dinp, inp, out, wide, s)),
      "llmc::softmax_backward: " + why);
}
