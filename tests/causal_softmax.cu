#include <llmc/causal_softmax.cuh>
#include <llmc/reference/causal_softmax.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "support/classifier_case.cuh"
#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/random.hpp"
#include "support/refusal.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::attention_shape;
using llmc::causal_softmax_backward_variant;
using llmc::causal_softmax_forward_variant;

namespace {

std::int64_t count_of(attention_shape s) {
  return s.batch * s.heads * s.sequence * s.sequence;
}

/// Calls `body(i, t, s)` for every element, number i, of (B, NH, T, T).
template <class Body>
void for_each_score(attention_shape shape, Body body) {
  for (std::int64_t i = 0; i < count_of(shape); ++i) {
    body(static_cast<std::size_t>(i), i / shape.sequence % shape.sequence, i % shape.sequence);
  }
}

/// The same scores with NaN above the diagonal, where nothing may be used.
std::vector<float> with_nan_above_diagonal(std::vector<float> scores, attention_shape shape) {
  for_each_score(shape, [&](std::size_t i, std::int64_t t, std::int64_t s) {
    if (s > t) scores[i] = not_a_number;
  });
  return scores;
}

struct causal_case {
  attention_shape shape;
  float scale;
  double range;  ///< between the largest and the smallest scaled score
  std::vector<float> inp, dout;
  std::vector<double> out, dinp;

  explicit causal_case(attention_shape shape_of_scores, float factor = 0.6f, double deviation = 1)
      : shape(shape_of_scores), scale(factor), range(12 * deviation * static_cast<double>(factor)) {
    inp = with_nan_above_diagonal(random_normal(count_of(shape), 1, deviation), shape);
    dout = with_nan_above_diagonal(random_normal(count_of(shape), 2), shape);
    out.resize(inp.size());
    dinp.resize(inp.size());
    const auto factor_in_double = static_cast<double>(scale);
    llmc::reference::causal_softmax_forward(out.data(), widen(inp).data(), shape, factor_in_double);
    llmc::reference::causal_softmax_backward(dinp.data(), widen(dout).data(), out.data(), shape,
                                             factor_in_double);
  }

  std::string text() const {
    return "B " + std::to_string(shape.batch) + ", T " + std::to_string(shape.sequence) + ", NH " +
           std::to_string(shape.heads);
  }

  /// A gradient without the probability that it is a multiple of, which may be small.
  template <class Real>
  std::vector<double> over_out(const std::vector<Real>& gradient) const {
    std::vector<double> result(gradient.begin(), gradient.end());
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (out[i] != 0) result[i] /= out[i];
    }
    return result;
  }
};

template <causal_softmax_forward_variant Variant, int BlockSize>
void check_forward(const causal_case& c, int misalignment = 0) {
  INFO(c.text() << ", misalignment " << misalignment);
  const buffer<float> inp(c.inp, misalignment);
  output out(count_of(c.shape), misalignment);
  run({&out}, [&](cudaStream_t s) {
    llmc::causal_softmax_forward<Variant, BlockSize>(out, inp, c.shape, c.scale, s);
  });
  check_close("out", out.values(), c.out, probability_tolerance(c.shape.sequence, c.range));
}

template <causal_softmax_forward_variant Variant, int BlockSize>
void check_forward_in_place(const causal_case& c) {
  INFO(c.text() << ", in place");
  output out(c.inp);
  run({&out}, [&](cudaStream_t s) {
    llmc::causal_softmax_forward<Variant, BlockSize>(out, out, c.shape, c.scale, s);
  });
  check_close("out", out.values(), c.out, probability_tolerance(c.shape.sequence, c.range));
}

/// dinp / out is scale * (dout - a weighted mean of dout), of numbers up to about 4.
void check_gradient(const causal_case& c, const output& dinp) {
  const std::vector<float> actual = dinp.values();
  check_close("dinp / out", c.over_out(actual), c.over_out(c.dinp),
              elementwise_tolerance(4 * static_cast<double>(c.scale)));
}

template <causal_softmax_backward_variant Variant, int BlockSize>
void check_backward(const causal_case& c, int misalignment = 0) {
  INFO(c.text() << ", misalignment " << misalignment);
  const buffer<float> dout(c.dout, misalignment);
  const buffer<float> out(with_nan_above_diagonal(narrow(c.out), c.shape), misalignment);
  output dinp(count_of(c.shape), misalignment);
  run({&dinp}, [&](cudaStream_t s) {
    llmc::causal_softmax_backward<Variant, BlockSize>(dinp, dout, out, c.shape, c.scale, s);
  });
  check_gradient(c, dinp);
}

template <causal_softmax_backward_variant Variant, int BlockSize>
void check_backward_in_place(const causal_case& c) {
  INFO(c.text() << ", in place");
  const buffer<float> out(with_nan_above_diagonal(narrow(c.out), c.shape));
  output dinp(c.dout);
  run({&dinp}, [&](cudaStream_t s) {
    llmc::causal_softmax_backward<Variant, BlockSize>(dinp, dinp, out, c.shape, c.scale, s);
  });
  check_gradient(c, dinp);
}

const std::vector<std::int64_t> sequences =
    sweep({1, 2, 3, 4, 5, 7, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257});

/// Rows that are longer than what a warp keeps of them, read by packs and by floats.
const std::vector<attention_shape> long_rows = unless_few<attention_shape>(
    {{1, 516, 1, 1}, {1, 517, 1, 1}, {1, 1028, 1, 1}, {1, 1100, 1, 1}, {1, 1101, 1, 1}});

}  // namespace

TEMPLATE_TEST_CASE_SIG("causal_softmax_forward agrees with the reference", "[causal_softmax]",
                       ((causal_softmax_forward_variant Variant, int BlockSize), Variant,
                        BlockSize),
                       (causal_softmax_forward_variant::automatic, 256),
                       (causal_softmax_forward_variant::thread_per_row, 32),
                       (causal_softmax_forward_variant::online_thread_per_row, 96),
                       (causal_softmax_forward_variant::block_per_row, 96),
                       (causal_softmax_forward_variant::block_per_row, 1024),
                       (causal_softmax_forward_variant::warp_per_row, 1024),
                       (causal_softmax_forward_variant::online_warp_per_row, 96),
                       (causal_softmax_forward_variant::row_in_registers, 32),
                       (causal_softmax_forward_variant::row_in_registers, 512)) {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t T : sequences) {
    const causal_case c({2, T, 3, 1});
    for (const int misalignment : {0, 1}) check_forward<Variant, BlockSize>(c, misalignment);
    check_forward_in_place<Variant, BlockSize>(c);
  }
  for (const attention_shape shape : long_rows) {
    const causal_case c(shape);
    check_forward<Variant, BlockSize>(c);
    check_forward_in_place<Variant, BlockSize>(c);
  }
  check_forward<Variant, BlockSize>(causal_case({1, 130, 2, 1}, 1.0f, 30));
  check_forward<Variant, BlockSize>(causal_case({4099, 3, 5, 1}));
}

TEMPLATE_TEST_CASE_SIG("causal_softmax_forward follows the formula at infinities and NaN",
                       "[causal_softmax]", ((causal_softmax_forward_variant Variant), Variant),
                       (causal_softmax_forward_variant::automatic),
                       (causal_softmax_forward_variant::thread_per_row),
                       (causal_softmax_forward_variant::online_thread_per_row),
                       (causal_softmax_forward_variant::block_per_row),
                       (causal_softmax_forward_variant::warp_per_row),
                       (causal_softmax_forward_variant::online_warp_per_row)) {
  LLMC_REQUIRE_GPU();
  const std::int64_t T = GENERATE(36, 37);  // by packs and by floats
  const attention_shape shape{1, T, 1, 1};
  const std::int64_t rows_with_softmax = T - 3;
  std::vector<float> scores(static_cast<std::size_t>(count_of(shape)), -infinity);
  const auto score = [&](std::int64_t t, std::int64_t s) -> float& {
    return scores[static_cast<std::size_t>(t * T + s)];
  };
  for (std::int64_t t = 0; t < rows_with_softmax; ++t) {
    score(t, t / 2) = t % 2 == 0 ? 3e38f : -3e38f;  // alone, or with one as far away as can be
    if (t % 3 == 0) score(t, t) = t % 2 == 0 ? -3e38f : 3e38f;
  }
  score(T - 2, 5) = infinity;
  score(T - 2, 6) = 1;
  score(T - 1, 7) = not_a_number;
  score(T - 1, T - 1) = 1;  // and row T - 3 holds -infinity alone
  std::vector<double> expected(scores.size());
  llmc::reference::causal_softmax_forward(expected.data(), widen(scores).data(), shape, 1.0);

  const buffer<float> inp(scores);
  output out(count_of(shape));
  run({&out},
      [&](cudaStream_t s) { llmc::causal_softmax_forward<Variant>(out, inp, shape, 1.0f, s); });
  const std::vector<float> actual = out.values();
  const auto row = [&](std::int64_t t) { return actual.begin() + t * T; };
  expected.resize(static_cast<std::size_t>(rows_with_softmax * T));
  check_close("out", std::vector<float>(actual.begin(), row(rows_with_softmax)), expected, {0, 0});
  for (std::int64_t t = rows_with_softmax; t < T; ++t) {
    INFO("row " << t);
    CHECK(all_nan(std::vector<float>(row(t), row(t) + t + 1)));
    CHECK(std::all_of(row(t) + t + 1, row(t + 1), [](float x) { return x == 0; }));
  }
}

TEMPLATE_TEST_CASE_SIG("causal_softmax_backward agrees with the reference", "[causal_softmax]",
                       ((causal_softmax_backward_variant Variant, int BlockSize), Variant,
                        BlockSize),
                       (causal_softmax_backward_variant::automatic, 256),
                       (causal_softmax_backward_variant::thread_per_row, 96),
                       (causal_softmax_backward_variant::block_per_row, 96),
                       (causal_softmax_backward_variant::block_per_row, 1024),
                       (causal_softmax_backward_variant::warp_per_row, 96),
                       (causal_softmax_backward_variant::row_in_registers, 96),
                       (causal_softmax_backward_variant::paired_rows, 32),
                       (causal_softmax_backward_variant::paired_rows, 512)) {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t T : sequences) {
    const causal_case c({2, T, 3, 1});
    for (const int misalignment : {0, 1}) check_backward<Variant, BlockSize>(c, misalignment);
    check_backward_in_place<Variant, BlockSize>(c);
  }
  for (const attention_shape shape : long_rows) {
    const causal_case c(shape);
    check_backward<Variant, BlockSize>(c);
    check_backward_in_place<Variant, BlockSize>(c);
  }
  check_backward<Variant, BlockSize>(causal_case({4099, 3, 5, 1}));
}

TEST_CASE("causal_softmax over nothing does nothing and refuses nothing", "[causal_softmax]") {
  llmc::causal_softmax_forward(nullptr, nullptr, {0, 5, 2, 1}, 1.0f, nullptr);
  llmc::causal_softmax_backward(nullptr, nullptr, nullptr, {3, 0, 2, 1}, 1.0f, nullptr);
}

TEST_CASE("causal_softmax_forward refuses what it cannot do", "[causal_softmax]") {
  check_refusals("llmc::causal_softmax_forward", llmc::causal_softmax_forward<>, array{"out"},
                 array{"inp"}, attention_shape{2, 3, 4, 5}, 1.0f, nullptr);
  float x = 0;
  const auto forward = [&](attention_shape shape, float scale) {
    return [=, &x] { llmc::causal_softmax_forward(&x, &x, shape, scale, nullptr); };
  };
  const std::string name = "llmc::causal_softmax_forward: ";
  check_refused(name + "heads must be at least 1, got 0", forward({1, 1, 0, 1}, 1));
  check_refused(name + "head_size must be at least 1, got 0", forward({1, 1, 1, 0}, 1));
  check_refused(name + "scale must be finite and at least 0.000000, got -1.000000",
                forward({1, 1, 1, 1}, -1));
  CHECK_THROWS_AS(forward({1, std::int64_t{1} << 31, 1, 1}, 1)(), llmc::invalid_argument);
}

TEST_CASE("causal_softmax_backward refuses what it cannot do", "[causal_softmax]") {
  check_refusals("llmc::causal_softmax_backward", llmc::causal_softmax_backward<>, array{"dinp"},
                 array{"dout"}, array{"out"}, attention_shape{2, 3, 4, 5}, 1.0f, nullptr);
  check_refused(
      "llmc::causal_softmax_backward: scale must be finite and at least 0.000000, got inf", [] {
        llmc::causal_softmax_backward(nullptr, nullptr, nullptr, {1, 1, 1, 1}, infinity, nullptr);
      });
}
