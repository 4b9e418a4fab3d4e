#include <llmc/attention.cuh>
#include <llmc/reference/attention.hpp>

#include <algorithm>
#include <vector>

#include "support/attention_oracle.hpp"
#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/random.hpp"

using namespace llmc_test;
using llmc::attention_backward_variant;
using llmc::attention_forward_variant;
using llmc::attention_shape;
using llmc::matmul_context;
using llmc::precision;

namespace {

constexpr auto forward_materialised = attention_forward_variant::materialised;
constexpr auto backward_materialised = attention_backward_variant::materialised;

struct attention_case {
  attention_shape shape;
  std::vector<float> qkv, dout;
  std::vector<double> out, lse, dqkv;

  /// Normal numbers, the queries multiplied by `query_scale`: large ones make the softmax peaked.
  explicit attention_case(attention_shape s, float query_scale = 1.0f) : shape(s) {
    const std::int64_t channels = s.heads * s.head_size;
    const std::int64_t positions = s.batch * s.sequence;
    qkv = random_normal(3 * positions * channels, 1);
    for (std::int64_t i = 0; i < 3 * positions * channels; ++i) {
      if (i / channels % 3 == 0) qkv[static_cast<std::size_t>(i)] *= query_scale;
    }
    dout = random_normal(positions * channels, 2);
    compute();
  }

  attention_case(attention_shape s, std::vector<float> all_qkv, std::vector<float> all_dout)
      : shape(s), qkv(std::move(all_qkv)), dout(std::move(all_dout)) {
    compute();
  }

 private:
  void compute() {
    out.resize(dout.size());
    lse.resize(static_cast<std::size_t>(shape.batch * shape.heads * shape.sequence));
    dqkv.resize(qkv.size());
    const std::vector<double> inp = widen(qkv), d = widen(dout);
    llmc::reference::attention_forward(out.data(), lse.data(), inp.data(), shape);
    llmc::reference::attention_backward(dqkv.data(), d.data(), inp.data(), out.data(), lse.data(),
                                        shape);
  }
};

double largest_of(const std::vector<double>& values) {
  double largest = 1;
  for (const double v : values) largest = std::max(largest, std::fabs(v));
  return largest;
}

/// Rounding a score by `relative` of the largest score changes every probability by that much, so
/// outputs are right to about relative * (1 + largest score) of the largest output.
tolerance attention_tolerance(const attention_case& c, const std::vector<double>& values,
                              precision arithmetic) {
  const double relative = arithmetic == precision::tf32 ? 1e-3 : 1e-6;
  double largest_score = 1;
  for (const double l : c.lse) largest_score = std::max(largest_score, std::fabs(l));
  return {4 * relative * (1 + largest_score) * largest_of(values), 4 * relative};
}

template <attention_forward_variant Forward, attention_backward_variant Backward,
          int BlockSize = 256>
void check_attention(const attention_case& c, precision arithmetic, matmul_context& context,
                     int misalignment = 0) {
  INFO("B " << c.shape.batch << ", T " << c.shape.sequence << ", NH " << c.shape.heads << ", HS "
            << c.shape.head_size << ", " << to_string(arithmetic) << ", misalignment "
            << misalignment);
  const buffer<float> qkv(c.qkv, misalignment), dout(c.dout, misalignment);
  const buffer<unsigned char> forward_workspace(
      static_cast<std::int64_t>(llmc::attention_forward_workspace_bytes(c.shape)));
  const buffer<unsigned char> backward_workspace(
      static_cast<std::int64_t>(llmc::attention_backward_workspace_bytes(c.shape)));
  output out(static_cast<std::int64_t>(c.out.size()), misalignment);
  output lse(static_cast<std::int64_t>(c.lse.size()), misalignment);
  output dqkv(static_cast<std::int64_t>(c.dqkv.size()), misalignment);
  run({&out, &lse}, [&](cudaStream_t s) {
    llmc::attention_forward<Forward, BlockSize>(out, lse, forward_workspace.get(), qkv, c.shape,
                                                arithmetic, context, s);
  });
  check_close("out", out.values(), c.out, attention_tolerance(c, c.out, arithmetic));
  check_close("lse", lse.values(), c.lse, attention_tolerance(c, c.lse, arithmetic));
  run({&dqkv}, [&](cudaStream_t s) {
    llmc::attention_backward<Backward, BlockSize>(dqkv, backward_workspace.get(), dout, qkv, out,
                                                  lse, c.shape, arithmetic, context, s);
  });
  check_close("dqkv", dqkv.values(), c.dqkv, attention_tolerance(c, c.dqkv, arithmetic));
  CHECK(forward_workspace.guards_intact());
  CHECK(backward_workspace.guards_intact());
}

}  // namespace

TEST_CASE("attention gives the closed form", "[attention]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::ieee, precision::tf32, precision::tf32x3);
  for (const std::int64_t T : {1, 2, 3, 5, 7, 31, 33, 63, 64, 65, 127, 129, 257}) {
    for (const std::int64_t HS : {1, 5, 16, 33, 64, 80, 128}) {
      const attention_oracle o({2, T, 3, HS});
      const attention_case c(o.shape, o.qkv, o.dout);
      check_close("the reference", c.dqkv, o.dqkv, {1e-9, 1e-9});
      check_attention<forward_materialised, backward_materialised>(c, arithmetic, context);
    }
  }
}

TEMPLATE_TEST_CASE_SIG(
    "attention agrees with the reference", "[attention]",
    ((attention_forward_variant Forward, attention_backward_variant Backward, int BlockSize),
     Forward, Backward, BlockSize),
    (attention_forward_variant::automatic, attention_backward_variant::automatic, 256),
    (forward_materialised, backward_materialised, 32),
    (forward_materialised, backward_materialised, 1024)) {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::ieee, precision::tf32);
  for (const std::int64_t T : {1, 2, 33, 65, 257, 300}) {
    for (const std::int64_t HS : {1, 5, 33, 64, 96}) {
      const attention_case c({2, T, 3, HS});
      check_attention<Forward, Backward, BlockSize>(c, arithmetic, context,
                                                    static_cast<int>(T % 2));
    }
  }
}

TEST_CASE("attention takes GPT-2's own shape", "[attention]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const precision arithmetic = GENERATE(precision::ieee, precision::tf32);
  check_attention<forward_materialised, backward_materialised>(attention_case({1, 1024, 2, 64}),
                                                               arithmetic, context);
  check_attention<forward_materialised, backward_materialised>(
      attention_case({1, 300, 2, 64}, 6.0f), arithmetic, context);
}

TEST_CASE("attention takes more heads than a grid's y extent", "[attention]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  check_attention<forward_materialised, backward_materialised>(attention_case({13108, 3, 5, 2}),
                                                               precision::ieee, context);
}

TEST_CASE("attention over very negative scores is still a softmax", "[attention]") {
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
  check_attention<forward_materialised, backward_materialised>(attention_case(shape, qkv, dout),
                                                               precision::ieee, context);
}

TEST_CASE("attention over nothing does nothing", "[attention]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const stream s;
  llmc::attention_forward(nullptr, nullptr, nullptr, nullptr, {0, 5, 2, 4}, precision::ieee,
                          context, s);
  llmc::attention_backward(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, {3, 0, 2, 4},
                           precision::ieee, context, s);
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
}

TEST_CASE("attention names an array that is missing", "[attention]") {
  LLMC_REQUIRE_GPU();
  matmul_context context;
  const buffer<float> some(64);
  const stream s;
  CHECK_THROWS_WITH(
      llmc::attention_forward(some, some, nullptr, some, {1, 2, 1, 4}, precision::ieee, context, s),
      "llmc::attention_forward: workspace must not be null");
}
