#include <llmc/crossentropy.cuh>

#include <tuple>
#include <vector>

#include "support/classifier_case.cuh"
#include "support/gpu.cuh"
#include "support/random.hpp"
#include "support/range_counter.cuh"
#include "support/refusal.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::classifier_shape;
using llmc::crossentropy_backward_variant;
using llmc::crossentropy_forward_variant;

namespace {

classifier_case random_case(classifier_shape shape, double deviation = 1.0) {
  return {shape, random_normal(shape.rows, 3), deviation};
}

template <crossentropy_forward_variant Variant, int BlockSize>
std::vector<float> forward(const classifier_case& c, int misalignment) {
  const buffer<float> logits(c.logits, misalignment);
  const buffer<std::int32_t> targets(c.targets, misalignment);
  const range_counter counter;
  output losses(c.shape.rows, misalignment);
  run({&losses}, [&](cudaStream_t s) {
    llmc::crossentropy_forward<Variant, BlockSize>(losses, counter, logits, targets, c.shape, s);
  });
  counter.check(c.out_of_range);
  return losses.values();
}

template <crossentropy_backward_variant Variant, int BlockSize>
std::vector<float> backward(const classifier_case& c, int misalignment) {
  const buffer<float> logits(c.logits, misalignment), dlosses(c.dlosses, misalignment);
  const buffer<std::int32_t> targets(c.targets, misalignment);
  output dlogits(c.shape.rows * c.shape.padded_vocabulary, misalignment);
  run({&dlogits}, [&](cudaStream_t s) {
    llmc::crossentropy_backward<Variant, BlockSize>(dlogits, logits, targets, c.shape,
                                                    {1.0f, dlosses}, s);
  });
  return dlogits.values();
}

template <crossentropy_forward_variant Forward, int ForwardBlockSize,
          crossentropy_backward_variant Backward, int BackwardBlockSize>
struct both {
  static constexpr auto forward = ::forward<Forward, ForwardBlockSize>;
  static constexpr auto backward = ::backward<Backward, BackwardBlockSize>;
};
using ladder = std::tuple<both<crossentropy_forward_variant::automatic, 1024,
                               crossentropy_backward_variant::automatic, 512>,
                          both<crossentropy_forward_variant::thread_per_row, 32,
                               crossentropy_backward_variant::thread_per_element, 96>,
                          both<crossentropy_forward_variant::thread_per_row, 96,
                               crossentropy_backward_variant::thread_per_row, 32>,
                          both<crossentropy_forward_variant::warp_per_row, 96,
                               crossentropy_backward_variant::warp_per_row, 96>>;

}  // namespace

TEMPLATE_TEST_CASE_SIG("crossentropy_forward agrees with the reference", "[crossentropy]",
                       ((crossentropy_forward_variant Variant, int BlockSize), Variant, BlockSize),
                       (crossentropy_forward_variant::automatic, 1024),
                       (crossentropy_forward_variant::thread_per_row, 32),
                       (crossentropy_forward_variant::warp_per_row, 96),
                       (crossentropy_forward_variant::block_per_row, 32),
                       (crossentropy_forward_variant::block_per_row, 96)) {
  LLMC_REQUIRE_GPU();
  const std::int64_t rows = GENERATE(1, 7);
  const std::int64_t padding = GENERATE(0, 1, 47);
  for (const std::int64_t vocabulary : awkward_sizes) {
    const classifier_case c = random_case({rows, vocabulary, vocabulary + padding});
    for (const int misalignment : {0, 1}) {
      INFO("rows " << rows << ", V " << vocabulary << ", padding " << padding << ", misalignment "
                   << misalignment);
      check_losses(c, forward<Variant, BlockSize>(c, misalignment));
    }
  }
}

TEMPLATE_TEST_CASE_SIG("crossentropy_backward agrees with the reference", "[crossentropy]",
                       ((crossentropy_backward_variant Variant, int BlockSize), Variant, BlockSize),
                       (crossentropy_backward_variant::automatic, 256),
                       (crossentropy_backward_variant::thread_per_element, 96),
                       (crossentropy_backward_variant::thread_per_row, 32),
                       (crossentropy_backward_variant::warp_per_row, 96),
                       (crossentropy_backward_variant::block_per_row, 32),
                       (crossentropy_backward_variant::block_per_row, 96),
                       (crossentropy_backward_variant::row_on_chip, 32),
                       (crossentropy_backward_variant::row_on_chip, 96)) {
  LLMC_REQUIRE_GPU();
  const bool on_chip = Variant == crossentropy_backward_variant::row_on_chip;
  const std::int64_t rows = GENERATE(1, 7);
  const std::int64_t padding = GENERATE(0, 1, 47);
  for (const std::int64_t vocabulary : awkward_sizes) {
    const classifier_case c = random_case({rows, vocabulary, vocabulary + padding});
    if (on_chip && (vocabulary + padding) % 4 != 0) continue;
    for (const int misalignment : {0, 1}) {
      if (on_chip && misalignment != 0) continue;
      INFO("rows " << rows << ", V " << vocabulary << ", padding " << padding << ", misalignment "
                   << misalignment);
      check_dlogits(c, backward<Variant, BlockSize>(c, misalignment));
    }
  }
}

TEST_CASE("crossentropy_backward keeps rows in registers and in shared memory", "[crossentropy]") {
  LLMC_REQUIRE_GPU();
  // 2816 logits fit the registers of 32 threads.
  for (const std::int64_t vocabulary : {2811, 2815, 2816, 2817, 2820, 2823, 9000}) {
    INFO("V " << vocabulary);
    const classifier_case c = random_case({5, vocabulary, (vocabulary + 3) / 4 * 4 + 8});
    check_dlogits(c, backward<crossentropy_backward_variant::row_on_chip, 32>(c, 0));
  }
  const classifier_case c = random_case({wants_few_sizes() ? 1 : 64, 50257, 50304});
  for (const int misalignment : {0, 1}) {
    check_dlogits(c, backward<crossentropy_backward_variant::automatic, 256>(c, misalignment));
  }
}

TEMPLATE_LIST_TEST_CASE("crossentropy takes large vocabularies, many rows and large logits",
                        "[crossentropy]", ladder) {
  LLMC_REQUIRE_GPU();
  for (const classifier_shape& shape :
       unless_few<classifier_shape>({{9, 50257, 50304}, {6, 100003, 100003}, {65537, 5, 8}})) {
    const classifier_case c = random_case(shape);
    check_losses(c, TestType::forward(c, 0));
    check_dlogits(c, TestType::backward(c, 0));
  }
  const classifier_case large = random_case({9, 1025, 1028}, 30.0);
  check_losses(large, TestType::forward(large, 0));
  check_dlogits(large, TestType::backward(large, 0));
}

TEMPLATE_LIST_TEST_CASE("crossentropy of the only finite logit is exact", "[crossentropy]",
                        ladder) {
  LLMC_REQUIRE_GPU();
  const std::int32_t vocabulary = wants_few_sizes() ? 5000 : 100000;
  const std::int32_t middle = vocabulary / 2, last = vocabulary - 1;
  const std::vector<std::int32_t> finite{0, 1, middle, last, 0, 0, 0};
  const auto stride = static_cast<std::size_t>(vocabulary);
  std::vector<float> logits(finite.size() * stride, -infinity);
  for (std::size_t row = 0; row < finite.size(); ++row) {
    logits[row * stride + static_cast<std::size_t>(finite[row])] = 10;
  }
  const classifier_case c(vocabulary, logits,
                          {0, 1, middle, last, llmc::ignored_target, -1, vocabulary});
  CHECK(c.out_of_range == 2);
  check_close("losses", TestType::forward(c, 0), std::vector<float>(finite.size(), 0), {0, 0});
  check_close("dlogits", TestType::backward(c, 0), std::vector<float>(logits.size(), 0), {0, 0});
}

TEMPLATE_LIST_TEST_CASE("crossentropy follows the formula at infinities and NaN", "[crossentropy]",
                        ladder) {
  LLMC_REQUIRE_GPU();
  const float inf = infinity, nan = not_a_number;
  const classifier_case c(5, {-inf,  0,      1,    -inf, 2,     //
                              1e4,   -1e4,   1e4,  -inf, -1e4,  //
                              3e38f, -3e38f, 0,    0,    0,     //
                              -inf,  -inf,   -inf, -inf, -inf,  //
                              0,     inf,    -inf, 0,    0,     //
                              -inf,  nan,    -inf, 0,    0,     //
                              nan,   nan,    inf,  -inf, 0},
                          {0, 1, 0, 0, 0, 0, llmc::ignored_target});
  const std::vector<float> losses = TestType::forward(c, 0);
  const std::vector<float> dlogits = TestType::backward(c, 0);
  const tolerance few_ulps{1e-6, 1e-6};
  for (std::int64_t row = 0; row < c.shape.rows; ++row) {
    INFO("row " << row);
    const auto i = static_cast<std::size_t>(row);
    if (row >= 3 && row < 6) {
      CHECK(std::isnan(losses[i]));
      CHECK(all_nan(c.row(dlogits, row)));
    } else {
      const auto begin = c.dlogits.begin() + row * c.shape.padded_vocabulary;
      check_close("loss", std::vector<float>{losses[i]}, std::vector<double>{c.losses[i]},
                  few_ulps);
      check_close("dlogits", c.row(dlogits, row),
                  std::vector<double>(begin, begin + c.shape.vocabulary), few_ulps);
    }
  }
}

TEST_CASE("crossentropy_forward does without a counter", "[crossentropy]") {
  LLMC_REQUIRE_GPU();
  const classifier_case c = random_case({7, 33, 33});
  const buffer<float> logits(c.logits);
  const buffer<std::int32_t> targets(c.targets);
  output losses(c.shape.rows);
  run({&losses}, [&](cudaStream_t s) {
    llmc::crossentropy_forward(losses, nullptr, logits, targets, c.shape, s);
  });
  check_losses(c, losses.values());
}

TEMPLATE_TEST_CASE_SIG("crossentropy_backward may write dlogits over logits", "[crossentropy]",
                       ((crossentropy_backward_variant Variant, int BlockSize), Variant, BlockSize),
                       (crossentropy_backward_variant::automatic, 256),
                       (crossentropy_backward_variant::thread_per_element, 96),
                       (crossentropy_backward_variant::thread_per_row, 32),
                       (crossentropy_backward_variant::warp_per_row, 96)) {
  LLMC_REQUIRE_GPU();
  const classifier_case c =
      random_case(GENERATE(classifier_shape{7, 5001, 5003}, classifier_shape{7, 50001, 50004}));
  const buffer<float> dlosses(c.dlosses);
  const buffer<std::int32_t> targets(c.targets);
  output dlogits(c.logits);
  run({&dlogits}, [&](cudaStream_t s) {
    llmc::crossentropy_backward<Variant, BlockSize>(dlogits, dlogits, targets, c.shape,
                                                    {1.0f, dlosses}, s);
  });
  check_dlogits(c, dlogits.values());
}

TEMPLATE_TEST_CASE_SIG("crossentropy_backward multiplies by a scale and by each row's own gradient",
                       "[crossentropy]",
                       ((crossentropy_backward_variant Variant, int BlockSize), Variant, BlockSize),
                       (crossentropy_backward_variant::automatic, 256),
                       (crossentropy_backward_variant::thread_per_element, 96),
                       (crossentropy_backward_variant::thread_per_row, 32),
                       (crossentropy_backward_variant::warp_per_row, 96)) {
  LLMC_REQUIRE_GPU();
  const classifier_case c = random_case(GENERATE(classifier_shape{7, 501, 503},  //
                                                 classifier_shape{7, 10001, 10004}));
  const bool each = GENERATE(true, false);
  constexpr float scale = 0.3f;
  const buffer<float> logits(c.logits), dlosses(c.dlosses);
  const buffer<std::int32_t> targets(c.targets);
  output dlogits(c.shape.rows * c.shape.padded_vocabulary);
  run({&dlogits}, [&](cudaStream_t s) {
    llmc::crossentropy_backward<Variant, BlockSize>(dlogits, logits, targets, c.shape,
                                                    {scale, each ? dlosses.get() : nullptr}, s);
  });
  std::vector<float> products = c.dlosses;
  for (float& d : products) d = each ? scale * d : scale;
  check_dlogits(classifier_case(c.shape, products), dlogits.values());
}

TEST_CASE("crossentropy_forward refuses what it cannot do", "[crossentropy]") {
  check_refusals("llmc::crossentropy_forward", llmc::crossentropy_forward<>, array{"losses"},
                 optional_array{}, array{"logits"}, array{"targets"}, classifier_shape{2, 3, 4},
                 nullptr);
  const auto call = [](classifier_shape shape) {
    return [=] { llmc::crossentropy_forward(nullptr, nullptr, nullptr, nullptr, shape, nullptr); };
  };
  check_refused("llmc::crossentropy_forward: vocabulary must be at least 1, got 0",
                call({1, 0, 1}));
  check_refused("llmc::crossentropy_forward: padded_vocabulary must be at least 8, got 7",
                call({1, 8, 7}));
  call({0, 1, 1})();  // nothing to do
}

TEST_CASE("crossentropy_backward refuses what it cannot do", "[crossentropy]") {
  check_refusals("llmc::crossentropy_backward", llmc::crossentropy_backward<>, array{"dlogits"},
                 array{"logits"}, array{"targets"}, classifier_shape{2, 3, 4},
                 llmc::loss_gradient{}, nullptr);
  const auto call = [](classifier_shape shape) {
    return [=] { llmc::crossentropy_backward(nullptr, nullptr, nullptr, shape, {}, nullptr); };
  };
  check_refused("llmc::crossentropy_backward: vocabulary must be at least 1, got 0",
                call({1, 0, 1}));
  check_refused("llmc::crossentropy_backward: padded_vocabulary must be at least 8, got 7",
                call({1, 8, 7}));
  call({0, 1, 1})();  // nothing to do
}
