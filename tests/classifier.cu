#include <llmc/classifier.cuh>

#include <tuple>
#include <vector>

#include "support/classifier_case.cuh"
#include "support/gpu.cuh"
#include "support/range_counter.cuh"
#include "support/refusal.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::classifier_forward_backward_variant;
using llmc::classifier_shape;

namespace {

constexpr float dloss = 0.3f;

classifier_case random_case(classifier_shape shape, double deviation = 1.0) {
  return {shape, std::vector<float>(static_cast<std::size_t>(shape.rows), dloss), deviation};
}

struct results {
  std::vector<float> losses;
  std::vector<float> dlogits;
};

template <classifier_forward_backward_variant Variant, int BlockSize>
results classify(const classifier_case& c, float scale, int misalignment = 0) {
  const buffer<std::int32_t> targets(c.targets, misalignment);
  const range_counter counter;
  output logits(c.logits, misalignment), losses(c.shape.rows, misalignment);
  run({&logits, &losses}, [&](cudaStream_t s) {
    llmc::classifier_forward_backward<Variant, BlockSize>(logits, losses, counter, targets, c.shape,
                                                          {scale}, s);
  });
  counter.check(c.out_of_range);
  return {losses.values(), logits.values()};
}

/// A variant with a block size, for lists that several test cases share.
template <auto Variant, int BlockSize>
struct with {
  static constexpr auto variant = Variant;
  static constexpr int block_size = BlockSize;
};
using ladder = std::tuple<with<classifier_forward_backward_variant::automatic, 512>,
                          with<classifier_forward_backward_variant::thread_per_row, 32>,
                          with<classifier_forward_backward_variant::unfused, 96>,
                          with<classifier_forward_backward_variant::warp_per_row, 96>>;
using ladder_and_on_chip = decltype(std::tuple_cat(
    ladder{}, std::tuple<with<classifier_forward_backward_variant::row_on_chip, 64>>{}));

}  // namespace

TEMPLATE_TEST_CASE_SIG("classifier_forward_backward agrees with the reference", "[classifier]",
                       ((classifier_forward_backward_variant Variant, int BlockSize), Variant,
                        BlockSize),
                       (classifier_forward_backward_variant::automatic, 256),
                       (classifier_forward_backward_variant::thread_per_row, 32),
                       (classifier_forward_backward_variant::unfused, 96),
                       (classifier_forward_backward_variant::warp_per_row, 96),
                       (classifier_forward_backward_variant::block_per_row, 32),
                       (classifier_forward_backward_variant::block_per_row, 96),
                       (classifier_forward_backward_variant::block_per_row, 1024),
                       (classifier_forward_backward_variant::row_on_chip, 32),
                       (classifier_forward_backward_variant::row_on_chip, 96),
                       (classifier_forward_backward_variant::row_on_chip, 1024)) {
  LLMC_REQUIRE_GPU();
  const bool on_chip = Variant == classifier_forward_backward_variant::row_on_chip;
  const std::int64_t rows = GENERATE(1, 7);
  const std::int64_t padding = GENERATE(0, 1, 47);
  for (const std::int64_t vocabulary : awkward_sizes) {
    const classifier_case c = random_case({rows, vocabulary, vocabulary + padding});
    if (on_chip && (vocabulary + padding) % 4 != 0) continue;
    for (const int misalignment : {0, 1}) {
      if (on_chip && misalignment != 0) continue;
      INFO("rows " << rows << ", V " << vocabulary << ", padding " << padding << ", misalignment "
                   << misalignment);
      const results actual = classify<Variant, BlockSize>(c, dloss, misalignment);
      check_losses(c, actual.losses);
      check_dlogits(c, actual.dlogits);
    }
  }
}

TEST_CASE("classifier_forward_backward keeps rows in registers and in shared memory",
          "[classifier]") {
  LLMC_REQUIRE_GPU();
  // 2816 logits fit the registers of 32 threads.
  for (const std::int64_t vocabulary : {2811, 2815, 2816, 2817, 2820, 2823, 9000}) {
    const std::int64_t padded = (vocabulary + 3) / 4 * 4 + 8;
    const classifier_case c = random_case({5, vocabulary, padded});
    const results actual =
        classify<classifier_forward_backward_variant::row_on_chip, 32>(c, dloss, 0);
    INFO("V " << vocabulary);
    check_losses(c, actual.losses);
    check_dlogits(c, actual.dlogits);
  }
  const classifier_case c = random_case({wants_few_sizes() ? 1 : 64, 50257, 50304});
  for (const int misalignment : {0, 1}) {
    const results actual =
        classify<classifier_forward_backward_variant::automatic, 256>(c, dloss, misalignment);
    check_losses(c, actual.losses);
    check_dlogits(c, actual.dlogits);
  }
}

TEMPLATE_LIST_TEST_CASE(
    "classifier_forward_backward takes large vocabularies, many rows and large logits",
    "[classifier]", ladder) {
  LLMC_REQUIRE_GPU();
  const auto check = [](const classifier_case& c) {
    const results actual = classify<TestType::variant, TestType::block_size>(c, dloss);
    check_losses(c, actual.losses);
    check_dlogits(c, actual.dlogits);
  };
  for (const classifier_shape& shape :
       unless_few<classifier_shape>({{64, 50257, 50304}, {6, 100003, 100003}, {65537, 5, 8}})) {
    check(random_case(shape));
  }
  check(random_case({9, 1025, 1028}, 30.0));
}

TEMPLATE_LIST_TEST_CASE("classifier_forward_backward of the only finite logit is exact",
                        "[classifier]", ladder) {
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
  const results actual = classify<TestType::variant, TestType::block_size>(c, 1.0f);
  check_close("losses", actual.losses, std::vector<float>(finite.size(), 0), {0, 0});
  check_close("dlogits", actual.dlogits, std::vector<float>(logits.size(), 0), {0, 0});
}

TEMPLATE_LIST_TEST_CASE("classifier_forward_backward follows the formula at infinities and NaN",
                        "[classifier]", ladder_and_on_chip) {
  LLMC_REQUIRE_GPU();
  const float inf = infinity, nan = not_a_number;
  const classifier_case c(4, {-inf, 0,     0,    -inf,  //
                              1e4f, -1e4f, -inf, 0,     //
                              -inf, -inf,  -inf, -inf,  //
                              inf,  0,     0,    0,     //
                              0,    nan,   0,    0,     //
                              nan,  inf,   -inf, 0},
                          {0, 1, 0, 1, 2, llmc::ignored_target});
  const results actual = classify<TestType::variant, TestType::block_size>(c, 1.0f);
  CHECK(actual.losses[0] == infinity);
  CHECK(c.row(actual.dlogits, 0) == std::vector<float>{-1, 0.5f, 0.5f, 0});
  CHECK(actual.losses[1] == 2e4f);
  CHECK(c.row(actual.dlogits, 1) == std::vector<float>{1, -1, 0, 0});
  for (const std::size_t row : {2, 3, 4}) {
    INFO("row " << row);
    CHECK(std::isnan(actual.losses[row]));
    CHECK(all_nan(c.row(actual.dlogits, static_cast<std::int64_t>(row))));
  }
  CHECK(actual.losses[5] == 0);
  CHECK(c.row(actual.dlogits, 5) == std::vector<float>{0, 0, 0, 0});
}

TEMPLATE_LIST_TEST_CASE("classifier_forward_backward multiplies by each row's own gradient",
                        "[classifier]", ladder) {
  LLMC_REQUIRE_GPU();
  const classifier_shape shape =
      GENERATE(classifier_shape{7, 501, 503}, classifier_shape{7, 10001, 10004});
  const std::vector<float> own = random_normal(shape.rows, 3);
  const classifier_case of_each(shape, own);
  const buffer<float> dlosses(own);
  const buffer<std::int32_t> targets(of_each.targets);
  constexpr float scale = 0.3f;
  output logits(of_each.logits), losses(shape.rows);
  run({&logits, &losses}, [&](cudaStream_t s) {
    llmc::classifier_forward_backward<TestType::variant, TestType::block_size>(
        logits, losses, nullptr, targets, shape, {scale, dlosses}, s);
  });
  std::vector<float> products = own;
  for (float& d : products) d *= scale;
  check_dlogits(classifier_case(shape, products), logits.values());
  check_losses(of_each, losses.values());
}

TEST_CASE("classifier_forward_backward does without a counter", "[classifier]") {
  LLMC_REQUIRE_GPU();
  const classifier_case c = random_case({7, 33, 33});
  const buffer<std::int32_t> targets(c.targets);
  output logits(c.logits), losses(c.shape.rows);
  run({&logits, &losses}, [&](cudaStream_t s) {
    llmc::classifier_forward_backward(logits, losses, nullptr, targets, c.shape, {dloss}, s);
  });
  check_losses(c, losses.values());
}

TEST_CASE("classifier_forward_backward takes more than 2^31 logits", "[classifier][large]") {
  LLMC_REQUIRE_GPU();
  const classifier_case last = random_case({1, 50257, 50304});
  const std::int64_t stride = last.shape.padded_vocabulary;
  const std::int64_t rows = (std::int64_t{1} << 31) / stride + 2;
  LLMC_REQUIRE_GPU_BYTES(static_cast<std::size_t>(rows * stride) * sizeof(float));

  const buffer<float> logits(rows * stride), losses(rows);
  float* last_logits = logits + (rows - 1) * stride;
  check_cuda(cudaMemcpy(last_logits, last.logits.data(), last.logits.size() * sizeof(float),
                        cudaMemcpyHostToDevice));
  std::vector<std::int32_t> row_targets(static_cast<std::size_t>(rows), llmc::ignored_target);
  row_targets.back() = last.targets[0];
  const buffer<std::int32_t> targets(row_targets);
  check_cuda(cudaDeviceSynchronize());
  const stream s;
  llmc::classifier_forward_backward(logits, losses, nullptr, targets,
                                    {rows, last.shape.vocabulary, stride}, {dloss}, s);
  s.synchronize();

  std::vector<float> dlogits(last.logits.size());
  check_cuda(cudaMemcpy(dlogits.data(), last_logits, dlogits.size() * sizeof(float),
                        cudaMemcpyDeviceToHost));
  check_dlogits(last, dlogits);
  check_losses(last, {losses.values().back()});
}

TEST_CASE("classifier_forward_backward refuses what it cannot do", "[classifier]") {
  check_refusals("llmc::classifier_forward_backward", llmc::classifier_forward_backward<>,
                 array{"logits"}, array{"losses"}, optional_array{}, array{"targets"},
                 classifier_shape{2, 3, 4}, llmc::loss_gradient{dloss}, nullptr);
  const auto call = [](classifier_shape shape) {
    return [=] {
      llmc::classifier_forward_backward(nullptr, nullptr, nullptr, nullptr, shape, {dloss},
                                        nullptr);
    };
  };
  check_refused("llmc::classifier_forward_backward: vocabulary must be at least 1, got 0",
                call({1, 0, 1}));
  check_refused("llmc::classifier_forward_backward: padded_vocabulary must be at least 8, got 7",
                call({1, 8, 7}));
  call({0, 1, 1})();  // nothing to do
}
