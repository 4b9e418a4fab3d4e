#include <llmc/attention.cuh>

#include <algorithm>
#include <limits>
#include <vector>

#include "support/attention_case.cuh"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::accumulation;
using llmc::attention_backward_variant;
using llmc::attention_forward_variant;
using llmc::attention_shape;
using llmc::matmul_context;
using llmc::precision;

namespace {

constexpr auto forward_materialised = attention_forward_variant::materialised;
constexpr auto backward_materialised = attention_backward_variant::materialised;

/// Rounding a score by `relative` of the largest score changes every probability by that much, so
/// outputs are right to about relative * (1 + largest score) of the largest output.
tolerance attention_tolerance(const attention_case& c, const std::vector<double>& values,
                              precision arithmetic) {
  const double relative = llmc::facts_of(arithmetic).is_exact() ? 1e-6 : 1e-3;
  double largest_score = 1;
  for (const double l : c.lse) largest_score = std::max(largest_score, std::fabs(l));
  return {4 * relative * (1 + largest_score) * largest_of(values), 4 * relative};
}

template <attention_forward_variant Forward, attention_backward_variant Backward, int BlockSize,
          class... Context>
void check_variants(const attention_case& c, precision arithmetic, int misalignment,
                    Context&... context) {
  INFO("B " << c.shape.batch << ", T " << c.shape.sequence << ", NH " << c.shape.heads << ", HS "
            << c.shape.head_size << ", " << to_string(arithmetic) << ", misalignment "
            << misalignment);
  const attention_result result = run_attention<Forward, Backward, BlockSize, BlockSize>(
      c, arithmetic, misalignment, context...);
  check_close("out", result.out, c.out, attention_tolerance(c, c.out, arithmetic));
  check_close("lse", result.lse, c.lse, attention_tolerance(c, c.lse, arithmetic));
  check_close("dqkv", result.dqkv, c.dqkv, attention_tolerance(c, c.dqkv, arithmetic));
}

template <int BlockSize = 256>
void check_attention(const attention_case& c, precision arithmetic, matmul_context& context,
                     int misalignment = 0) {
  check_variants<forward_materialised, backward_materialised, BlockSize>(c, arithmetic,
                                                                         misalignment, context);
}

constexpr auto forward_naive = attention_forward_variant::naive;
constexpr auto backward_naive = attention_backward_variant::naive;
constexpr int naive_block_size = llmc::attention_forward_block_size<forward_naive>;

/// In any precision it is as exact as in `ieee`.
void check_naive(const attention_case& c, int misalignment = 0) {
  check_variants<forward_naive, backward_naive, naive_block_size>(c, precision::ieee, misalignment);
}

}  // namespace

TEST_CASE("materialised attention gives the closed form", "[attention]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::ieee, precision::tf32, precision::tf32x3);
  for (const std::int64_t T : {1, 2, 3, 5, 7, 31, 33, 63, 64, 65, 127, 129, 257}) {
    for (const std::int64_t HS : {1, 5, 16, 33, 64, 80, 128}) {
      check_attention(attention_case(attention_oracle({2, T, 3, HS})), arithmetic, context);
    }
  }
}

TEMPLATE_TEST_CASE_SIG("materialised attention agrees with the reference", "[attention]",
                       ((int BlockSize), BlockSize), (32), (256), (1024)) {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::ieee, precision::tf32);
  for (const std::int64_t T : {1, 2, 33, 65, 257, 300}) {
    for (const std::int64_t HS : {1, 5, 33, 64, 96}) {
      const attention_case c({2, T, 3, HS});
      check_attention<BlockSize>(c, arithmetic, context, static_cast<int>(T % 2));
    }
  }
}

TEST_CASE("materialised attention takes GPT-2's own shape", "[attention]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::ieee, precision::tf32);
  check_attention(attention_case({1, 1024, 2, 64}), arithmetic, context);
  check_attention(attention_case({1, 300, 2, 64}, 6.0f), arithmetic, context);
}

TEST_CASE("materialised attention takes more heads than a grid's y extent", "[attention]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  check_attention(attention_case({13108, 3, 5, 2}), precision::ieee, context);
}

TEST_CASE("materialised attention over very negative scores is still a softmax", "[attention]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  // Every score is about -2e5 before a small difference: a maximum that starts at a finite stand-in
  // such as -1e4 would lose all of them. Powers of two keep the scores themselves exact.
  const attention_shape shape{1, 65, 1, 4};
  std::vector<float> qkv(65 * 12), dout(65 * 4, 1.0f);
  for (std::size_t t = 0; t < 65; ++t) {
    qkv[t * 12] = 2048.0f;
    qkv[t * 12 + 4] = -200.0f + static_cast<float>(t % 2) / 1024.0f;
    qkv[t * 12 + 8] = static_cast<float>(t);
  }
  check_attention(attention_case(shape, qkv, dout), precision::ieee, context);
}

TEST_CASE("naive attention gives the closed form and agrees with the reference", "[attention]") {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t T : sweep({1, 2, 3, 31, 33, 65, 130})) {
    for (const std::int64_t HS : {1, 5, 64, 130}) {
      check_naive(attention_case(attention_oracle({2, T, 3, HS})));
      check_naive(attention_case({2, T, 3, HS}), static_cast<int>(T % 2));
    }
  }
  check_naive(attention_case({1, 300, 2, 64}, 6.0f));
  check_naive(attention_case({13108, 3, 5, 2}));
}

TEST_CASE("naive attention does every precision in IEEE FP32", "[attention]") {
  LLMC_REQUIRE_GPU();
  const attention_case c({1, 65, 2, 64});
  const auto result = [&](precision arithmetic) {
    return run_attention<forward_naive, backward_naive>(c, arithmetic, 0);
  };
  const attention_result expected = result(precision::ieee);
  for (const precision arithmetic : llmc::precisions) {
    const attention_result actual = result(arithmetic);
    CHECK((actual.out == expected.out));
    CHECK((actual.lse == expected.lse));
    CHECK((actual.dqkv == expected.dqkv));
  }
}

TEST_CASE("naive attention keeps what is not finite from earlier positions", "[attention]") {
  LLMC_REQUIRE_GPU();
  constexpr std::int64_t T = 40, bad = 20;
  attention_case c({1, T, 1, 4});
  c.qkv[bad * 12 + 4] = std::numeric_limits<float>::quiet_NaN();  // in a key
  c.qkv[bad * 12 + 8] = std::numeric_limits<float>::infinity();   // in a value
  const buffer<float> qkv(c.qkv);
  output out(T * 4), lse(T);
  run({&out, &lse}, [&](cudaStream_t s) {
    llmc::attention_forward<forward_naive>(out, lse, qkv, c.shape, precision::ieee, s);
  });
  std::vector<float> earlier = out.values();
  earlier.resize(bad * 4);
  c.out.resize(bad * 4);
  check_close("out", earlier, c.out, attention_tolerance(c, c.out, precision::ieee));
}

TEST_CASE("materialised attention over nothing does nothing", "[attention]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const stream s;
  llmc::attention_forward<forward_materialised>(nullptr, nullptr, {}, nullptr, {0, 5, 2, 4},
                                                precision::ieee, context, s);
  llmc::attention_backward<backward_materialised>(nullptr, nullptr, {}, nullptr, nullptr, nullptr,
                                                  nullptr, {3, 0, 2, 4}, precision::ieee,
                                                  llmc::accumulation::overwrite, context, s);
  s.synchronize();
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("attention refuses what it cannot do", "[attention]") {
  CHECK_THROWS_WITH(llmc::attention_forward_workspace_bytes({1, 2, 0, 4}),
                    "llmc::attention_forward_workspace_bytes: heads must be at least 1, got 0");
  CHECK_THROWS_WITH(
      llmc::attention_backward_workspace_bytes({1, -2, 1, 4}),
      "llmc::attention_backward_workspace_bytes: sequence must be at least 0, got -2");
  CHECK_THROWS_AS(llmc::attention_forward_workspace_bytes({1 << 20, 1 << 20, 1 << 10, 1 << 10}),
                  llmc::invalid_argument);
  CHECK_THROWS_AS(
      llmc::attention_forward_workspace_bytes<attention_forward_variant::flash>({1, 2, 1, 129}),
      llmc::unsupported);
  CHECK_THROWS_AS(
      llmc::attention_backward_workspace_bytes<attention_backward_variant::flash>({1, 2, 1, 129}),
      llmc::unsupported);
}

namespace {

template <attention_backward_variant Variant, class... Context>
void check_backward_refusals(attention_shape shape, std::size_t bytes, Context... context) {
  check_refusals(
      "llmc::attention_backward", [](auto&&... all) { llmc::attention_backward<Variant>(all...); },
      array{"dqkv"}, optional_array{}, needed_scratch{bytes}, array{"dout"}, array{"qkv"},
      array{"out"}, array{"lse"}, shape, precision::ieee, accumulation::overwrite, context...,
      nullptr);
}

template <attention_forward_variant Variant>
void check_forward_refusals(attention_shape shape, matmul_context& context) {
  check_refusals(
      "llmc::attention_forward", [](auto&&... all) { llmc::attention_forward<Variant>(all...); },
      array{"out"}, array{"lse"},
      needed_scratch{llmc::attention_forward_workspace_bytes<Variant>(shape)}, array{"qkv"}, shape,
      precision::ieee, std::ref(context), nullptr);
}

constexpr attention_shape small{1, 3, 2, 64}, large{1, 3, 2, 160};  // flash takes the former

}  // namespace

TEST_CASE("attention without a context refuses bad arguments", "[attention]") {
  using variant = attention_backward_variant;
  check_refusals(
      "llmc::attention_forward", [](auto&&... all) { llmc::attention_forward(all...); },
      array{"out"}, array{"lse"}, array{"qkv"}, small, precision::ieee, nullptr);
  check_backward_refusals<variant::naive>(
      small, llmc::attention_backward_workspace_bytes<variant::naive>(small));
  check_backward_refusals<variant::flash>(
      small, llmc::attention_backward_workspace_bytes<variant::flash>(small));
  check_backward_refusals<variant::automatic>(small,
                                              llmc::attention_backward_workspace_bytes(small));
  check_backward_refusals<variant::automatic>(
      large, llmc::attention_backward_workspace_bytes<variant::naive>(large));
}

TEST_CASE("attention with a context takes no bad argument", "[attention]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  check_backward_refusals<backward_materialised>(
      small, llmc::attention_backward_workspace_bytes<backward_materialised>(small),
      std::ref(context));
  check_backward_refusals<attention_backward_variant::automatic>(
      large, llmc::attention_backward_workspace_bytes(large), std::ref(context));
  check_forward_refusals<forward_materialised>(small, context);
  check_forward_refusals<attention_forward_variant::automatic>(large, context);
}

TEST_CASE("attention's workspace refuses to grow with the scores where flash takes the shape",
          "[attention]") {
  CHECK(llmc::attention_forward_workspace_bytes({4, 8192, 12, 64}) == 0);
  CHECK(llmc::attention_backward_workspace_bytes({4, 8192, 12, 64}) ==
        4 * 12 * 8192 * 4 + 4 * (8192 / 64) * 3 * 12 * 64 * 4);
  CHECK(llmc::attention_forward_workspace_bytes<forward_naive>({4, 8192, 12, 640}) == 0);
  CHECK(llmc::attention_backward_workspace_bytes<backward_naive>({4, 8192, 12, 640}) ==
        128 * 3 * 12 * 640 * 4);
  CHECK(llmc::attention_backward_workspace_bytes<backward_materialised>({4, 8192, 12, 64}) >
        std::size_t{4} * 12 * 8192 * 256 * 4);
  CHECK(llmc::attention_forward_workspace_bytes({1, 2, 1, 129}) ==
        llmc::attention_forward_workspace_bytes<forward_materialised>({1, 2, 1, 129}));
}
