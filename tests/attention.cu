#include <llmc/attention.cuh>

#include <algorithm>
#include <limits>
#include <vector>

#include "support/attention_case.cuh"
#include "support/refusal.hpp"
#include "support/sizes.hpp"

using namespace llmc_test;
using llmc::accumulation;
using llmc::attention_backward_variant;
using llmc::attention_forward_variant;
using llmc::attention_shape;
using llmc::matmul_context;
using llmc::precision;
using llmc::workspace;

namespace {

constexpr auto forward_materialised = attention_forward_variant::materialised;
constexpr auto backward_materialised = attention_backward_variant::materialised;

/// Rounding a score by `relative` of the largest score changes every probability by that much, so
/// outputs are right to about relative * (1 + largest score) of the largest output.
tolerance attention_tolerance(const attention_case& c, const std::vector<double>& values,
                              precision arithmetic) {
  const double relative = arithmetic == precision::tf32 ? 1e-3 : 1e-6;
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

TEST_CASE("attention refuses a shape in the launcher's own name", "[attention]") {
  check_refused("llmc::attention_forward: heads must be at least 1, got 0", [] {
    llmc::attention_forward(nullptr, nullptr, nullptr, {1, 2, 0, 4}, precision::ieee, nullptr);
  });
  check_refused("llmc::attention_backward: sequence must be at least 0, got -2", [] {
    llmc::attention_backward(nullptr, nullptr, {}, nullptr, nullptr, nullptr, nullptr,
                             {1, -2, 1, 4}, precision::ieee, accumulation::overwrite, nullptr);
  });
}

namespace {

/// `run(workspace)` must refuse all that is not `bytes` at an address aligned to 16.
template <class Run>
void check_scratch(const std::string& function, std::size_t bytes, Run run) {
  alignas(16) static unsigned char memory[32];
  const std::string wanted = std::to_string(bytes);
  check_refused(function + ": workspace must have " + wanted + " bytes, got null",
                [&] { run(workspace{}); });
  check_refused(function + ": workspace must have at least " + wanted + " bytes, got " +
                    std::to_string(bytes - 1),
                [&] {
                  run(workspace{memory, bytes - 1});
                });
  check_refused(function +
                    ": workspace must be aligned to 16 bytes, got an address 4 bytes past "
                    "that",
                [&] {
                  run(workspace{memory + 4, bytes});
                });
}

template <attention_backward_variant Variant, class... Context>
void check_backward_scratch(attention_shape shape, std::size_t bytes, Context&... context) {
  float some[1];
  check_scratch("llmc::attention_backward", bytes, [&](workspace scratch) {
    llmc::attention_backward<Variant>(some, some, scratch, some, some, some, some, shape,
                                      precision::ieee, accumulation::overwrite, context...,
                                      nullptr);
  });
}

}  // namespace

TEST_CASE("attention refuses a scratch that is too small", "[attention]") {
  using variant = attention_backward_variant;
  const attention_shape small{2, 65, 3, 64}, large{2, 65, 3, 160};
  check_backward_scratch<variant::naive>(
      small, llmc::attention_backward_workspace_bytes<variant::naive>(small));
  check_backward_scratch<variant::flash>(
      small, llmc::attention_backward_workspace_bytes<variant::flash>(small));
  check_backward_scratch<variant::automatic>(small,
                                             llmc::attention_backward_workspace_bytes(small));
  check_backward_scratch<variant::automatic>(
      large, llmc::attention_backward_workspace_bytes<variant::naive>(large));
}

TEST_CASE("attention by products refuses a scratch that is too small", "[attention]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const attention_shape small{2, 65, 3, 64}, large{2, 65, 3, 160};
  check_backward_scratch<backward_materialised>(
      small, llmc::attention_backward_workspace_bytes<backward_materialised>(small), context);
  check_backward_scratch<attention_backward_variant::automatic>(
      large, llmc::attention_backward_workspace_bytes(large), context);

  float some[1];
  const auto forward = [&](auto variant, attention_shape shape) {
    return [&, variant, shape](workspace scratch) {
      llmc::attention_forward<decltype(variant)::value>(some, some, scratch, some, shape,
                                                        precision::ieee, context, nullptr);
    };
  };
  using materialised = std::integral_constant<attention_forward_variant, forward_materialised>;
  using automatic =
      std::integral_constant<attention_forward_variant, attention_forward_variant::automatic>;
  check_scratch("llmc::attention_forward",
                llmc::attention_forward_workspace_bytes<forward_materialised>(small),
                forward(materialised{}, small));
  check_scratch("llmc::attention_forward", llmc::attention_forward_workspace_bytes(large),
                forward(automatic{}, large));
  // The bytes of another variant: `automatic` is flash here, and needs none.
  CHECK_THROWS_AS(
      forward(materialised{}, small)({some, llmc::attention_forward_workspace_bytes(small)}),
      llmc::invalid_argument);
}

TEST_CASE("attention refuses an array that is missing", "[attention]") {
  float some[1];
  check_refused("llmc::attention_forward: qkv must not be null", [&] {
    llmc::attention_forward(some, some, nullptr, {1, 2, 1, 4}, precision::ieee, nullptr);
  });
  alignas(16) float delta[64];
  check_refused("llmc::attention_backward: lse must not be null", [&] {
    llmc::attention_backward(some, nullptr, {delta, sizeof(delta)}, some, some, some, nullptr,
                             {1, 2, 1, 4}, precision::ieee, accumulation::overwrite, nullptr);
  });
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
