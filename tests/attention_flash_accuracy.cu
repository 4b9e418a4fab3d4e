// How exact flash attention is.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/flash_case.cuh"
#include "support/sizes.hpp"

using namespace llmc_test;

namespace {

/// Where the closed form is 0 by multiplication with 0, so must be the result.
void check_zeros(const std::string& name, const std::vector<float>& actual,
                 const std::vector<double>& expected) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) wrong += expected[i] == 0 && actual[i] != 0;
  INFO(name << ": " << wrong << " elements should be exactly 0");
  CHECK(wrong == 0);
}

std::vector<float> multiplied(std::vector<float> values, float factor) {
  for (float& value : values) value *= factor;
  return values;
}

}  // namespace

TEST_CASE("flash attention gives the closed form", "[attention]") {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t T :
       sweep({1, 2, 3, 5, 7, 31, 33, 63, 64, 65, 127, 129, 257, 1000, 1024})) {
    for (const std::int64_t HS : sweep({1, 5, 16, 33, 64, 80, 96, 128})) {
      const attention_case c(attention_oracle({2, T, 3, HS}));
      for (const precision arithmetic : llmc::precisions) {
        INFO(describe(c, arithmetic));
        const double relative = llmc::facts_of(arithmetic).is_exact() ? 4e-6 : 2e-3;
        const attention_result result = run_flash(c, arithmetic);
        check_close("out", result.out, c.out, {relative * largest_of(c.out), 0});
        check_close("lse", result.lse, c.lse, {4e-6, 1e-6});
        for (const int which : {0, 1, 2}) {
          const auto expected = part_of(c.dqkv, c.shape, which);
          check_close("dq, dk, dv number " + std::to_string(which),
                      part_of(result.dqkv, c.shape, which), expected,
                      {relative * largest_of(expected), 0});
        }
        check_zeros("out", result.out, c.out);
        check_zeros("dqkv", result.dqkv, c.dqkv);
      }
    }
  }
}

TEST_CASE("flash attention agrees with the reference", "[attention]") {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t T : sweep({1, 2, 3, 5, 7, 31, 33, 63, 64, 65, 127, 129, 257})) {
    for (const std::int64_t HS : sweep({1, 5, 16, 33, 64, 80, 96, 128})) {
      const attention_case c({2, T, 3, HS});
      for (const precision arithmetic : llmc::precisions) {
        for (const int misalignment : {0, 1}) {
          check_flash(c, arithmetic, misalignment, few_numbers(c.shape) ? 20 : 1.5);
        }
      }
    }
  }
}

TEST_CASE("flash attention is exact enough at GPT-2's length", "[attention]") {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t T : sweep({1000, 1024})) {
    for (const std::int64_t HS : sweep({64, 80, 96, 128})) {
      const attention_case c({1, T, 2, HS});
      for (const precision arithmetic : llmc::precisions) {
        INFO(describe(c, arithmetic));
        const attention_result result = run_flash(c, arithmetic);
        check_error("out", result.out, c.out, allowed_error(arithmetic));
        for (const int which : {0, 1, 2}) {
          INFO("dq, dk, dv number " << which);
          check_error("gradient", part_of(result.dqkv, c.shape, which),
                      part_of(c.dqkv, c.shape, which), allowed_error(arithmetic));
        }
      }
    }
  }
}

TEST_CASE("flash attention takes peaked, small and large inputs", "[attention]") {
  LLMC_REQUIRE_GPU();
  const attention_shape shape{1, 300, 2, 64};
  const attention_case normal(shape);
  const attention_case peaked(shape, 6.0f);
  const attention_case small(shape, multiplied(normal.qkv, 1e-4f), multiplied(normal.dout, 1e-4f));
  const attention_case large_gradient(shape, normal.qkv, multiplied(normal.dout, 1e10f));
  const attention_case biased(
      shape,
      [&] {
        std::vector<float> qkv = normal.qkv;
        for (std::size_t i = 0; i < qkv.size(); ++i) {
          if (i / 128 % 3 == 2) qkv[i] += 1.0f;
        }
        return qkv;
      }(),
      normal.dout);
  for (const precision arithmetic : llmc::precisions) {
    check_flash(peaked, arithmetic, 0, 4);
    check_flash(small, arithmetic);
    check_flash(large_gradient, arithmetic);
    check_flash(biased, arithmetic);
  }
}

TEST_CASE("flash attention takes more heads than a grid's y extent", "[attention]") {
  LLMC_REQUIRE_GPU();
  const attention_case c({13108, 3, 5, 2});
  for (const precision arithmetic : llmc::precisions) check_flash(c, arithmetic, 0, 3);
}

TEST_CASE("flash attention over very negative scores is still a softmax", "[attention]") {
  LLMC_REQUIRE_GPU();
  // Scores are -204800 + t % 2: a maximum that starts at a finite stand-in such as -1e4 would lose
  // all of them. Every factor is TF32 already, so the scores are exact in all precisions.
  const attention_shape shape{1, 130, 1, 4};
  std::vector<float> qkv(130 * 12), dout(130 * 4, 1.0f);
  for (std::size_t t = 0; t < 130; ++t) {
    qkv[t * 12] = 2048.0f;
    qkv[t * 12 + 1] = 1.0f;
    qkv[t * 12 + 4] = -200.0f;
    qkv[t * 12 + 5] = t % 2 == 0 ? 0.0f : 2.0f;
    qkv[t * 12 + 8] = static_cast<float>(t);
  }
  const attention_case c(shape, qkv, dout);
  for (const precision arithmetic : llmc::precisions) {
    INFO(describe(c, arithmetic));
    const attention_result result = run_flash(c, arithmetic);
    check_close("out", result.out, c.out, {1e-3 * largest_of(c.out), 0});
    check_close("lse", result.lse, c.lse, {0, 2e-7});
    // A unit in the last place of such an lse is 1/64, and so is the error of a probability.
    check_close("dqkv", result.dqkv, c.dqkv, {0.1 * largest_of(c.dqkv), 0});
  }
}
