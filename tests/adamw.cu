#include <llmc/adamw.cuh>
#include <llmc/global_norm.cuh>
#include <llmc/reference/adamw.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "support/adamw_oracle.hpp"
#include "support/clip_state.cuh"
#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/random.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::adamw_parameters;
using llmc::adamw_update_variant;
using llmc::clip_state;

namespace {

constexpr adamw_parameters usual{0.9f, 0.999f, 1e-8f, 0.1f};

/// A learning rate of 1 makes an update as large as the parameters, so that its errors show.
struct adamw_case {
  std::int64_t count;
  std::vector<float> params, m, v, grads;
  float learning_rate = 1.0f;
  clip_state clip{2.0f, 0.5f, 1};

  explicit adamw_case(std::int64_t n)
      : count(n),
        params(random_normal(n, 1)),
        m(random_normal(n, 2)),
        v(random_normal(n, 3)),
        grads(random_normal(n, 4)) {
    for (float& x : v) x = 0.5f + x * x;
  }
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return same_bits({a}, {b});
}

/// One update on the GPU and by the reference. Directions are of order 10, each a few operations.
template <adamw_update_variant Variant = adamw_update_variant::automatic, int BlockSize = 256>
void check_update(const adamw_case& c, adamw_parameters parameters, std::int64_t t,
                  int misalignment = 0, bool clipped = true) {
  INFO("count " << c.count << ", step " << t << ", misalignment " << misalignment);
  const buffer<float> grads(c.grads, misalignment), learning_rate(std::vector<float>{1.0f});
  const buffer<std::int64_t> step(std::vector<std::int64_t>{t});
  const buffer<clip_state> clip(std::vector<clip_state>{c.clip});
  output params(c.params, misalignment), m(c.m, misalignment), v(c.v, misalignment);
  run({&params, &m, &v}, [&](cudaStream_t s) {
    llmc::adamw_update<Variant, BlockSize>(params, m, v, grads, c.count, parameters, learning_rate,
                                           step, clipped ? clip.get() : nullptr, s);
  });

  std::vector<double> expected_params = widen(c.params), expected_m = widen(c.m),
                      expected_v = widen(c.v);
  llmc::reference::adamw_update(expected_params.data(), expected_m.data(), expected_v.data(),
                                widen(c.grads).data(), c.count, parameters, &c.learning_rate, &t,
                                clipped ? &c.clip : nullptr);
  check_close("params", params.values(), expected_params, elementwise_tolerance());
  check_close("m", m.values(), expected_m, elementwise_tolerance());
  check_close("v", v.values(), expected_v, elementwise_tolerance());
}

}  // namespace

TEMPLATE_TEST_CASE_SIG(
    "adamw_update agrees with the reference", "[adamw]",
    ((adamw_update_variant Variant, int BlockSize), Variant, BlockSize),
    (adamw_update_variant::automatic, 256), (adamw_update_variant::element_per_thread, 96),
    (adamw_update_variant::pack_per_thread, 32), (adamw_update_variant::pack_per_thread, 96),
    (adamw_update_variant::pack_per_thread, 1024), (adamw_update_variant::packs_per_thread, 32),
    (adamw_update_variant::packs_per_thread, 96), (adamw_update_variant::packs_per_thread, 1024)) {
  LLMC_REQUIRE_GPU();
  for (const std::int64_t count : awkward_sizes) {
    const adamw_case c(count);
    for (const int misalignment : {0, 1}) {
      check_update<Variant, BlockSize>(c, usual, 3, misalignment);
    }
  }
  check_update<Variant, BlockSize>(adamw_case(100003), usual, 3);
}

TEST_CASE("adamw_update corrects its moments at any step and for any decay rate", "[adamw]") {
  LLMC_REQUIRE_GPU();
  const adamw_case c(257);
  const std::int64_t t = GENERATE(std::int64_t{1}, std::int64_t{2}, std::int64_t{1000},
                                  std::int64_t{1000000}, std::int64_t{1} << 40);
  check_update(c, usual, t);
  check_update(c, {0.0f, 0.0f, 1e-8f, 0.0f}, t);
  check_update(c, {0.5f, 0.9999f, 1e-3f, 0.0f}, t);
}

TEST_CASE("adamw_update leaves the gradients as they are without a clip state", "[adamw]") {
  LLMC_REQUIRE_GPU();
  check_update(adamw_case(257), usual, 2, 0, false);
}

TEST_CASE("adamw_update moves by the learning rate at the first step", "[adamw]") {
  LLMC_REQUIRE_GPU();
  // With zero moments the direction is the gradient's sign. That takes a correction with all its
  // digits: 1 - beta2 of the last parameters is 2^-23.
  const adamw_parameters parameters =
      GENERATE(adamw_parameters{0.9f, 0.999f, 0.0f, 0.0f}, adamw_parameters{0.0f, 0.0f, 0.0f, 0.0f},
               adamw_parameters{0.999f, 0.9999999f, 0.0f, 0.0f});
  const std::vector<float> start{1, 2, 3, 4, 5}, zero(5, 0.0f);
  const buffer<float> grads(std::vector<float>{1e-3f, -1e-3f, 5, -5, 0.25f}),
      learning_rate(std::vector<float>{0.5f});
  const buffer<std::int64_t> step(std::vector<std::int64_t>{1});
  output params(start), m(zero), v(zero);
  run({&params, &m, &v}, [&](cudaStream_t s) {
    llmc::adamw_update(params, m, v, grads, 5, parameters, learning_rate, step, nullptr, s);
  });
  check_close("params", params.values(), std::vector<double>{0.5, 2.5, 2.5, 4.5, 4.5},
              {1e-6, 1e-6});
}

TEST_CASE("adamw_update follows a constant gradient through a replayed graph", "[adamw]") {
  LLMC_REQUIRE_GPU();
  const int steps = 200;
  const float rate = 0.01f;
  const std::vector<float> start = random_normal(37, 1), slope = random_normal(37, 2);
  const std::vector<float> zero(start.size(), 0.0f);
  const buffer<float> params(start), m(zero), v(zero), grads(slope);
  buffer<float> learning_rate(1);
  buffer<std::int64_t> step(1);
  const stream s;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check_cuda(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
  llmc::adamw_update(params, m, v, grads, 37, usual, learning_rate, step, nullptr, s);
  check_cuda(cudaStreamEndCapture(s, &graph));
  check_cuda(cudaGraphInstantiate(&executable, graph, 0));
  learning_rate.set({rate});
  for (std::int64_t t = 1; t <= steps; ++t) {
    step.set({t});
    check_cuda(cudaDeviceSynchronize());
    check_cuda(cudaGraphLaunch(executable, s));
    s.synchronize();
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);

  std::vector<double> expected;
  for (std::size_t i = 0; i < start.size(); ++i) {
    expected.push_back(adamw_constant_gradient(start[i], slope[i], steps, rate, usual.epsilon,
                                               usual.weight_decay));
  }
  // Each of the steps rounds once, by half a unit in the last place of a number below 4.
  check_close("params", params.values(), expected, {1e-5, 1e-5});
}

TEST_CASE("adamw_update writes nothing where the norm is not finite", "[adamw]") {
  LLMC_REQUIRE_GPU();
  const int misalignment = GENERATE(0, 1);
  adamw_case c(1023);
  c.grads[700] = GENERATE(std::numeric_limits<float>::infinity(), std::nanf(""));
  const buffer<float> grads(c.grads, misalignment), learning_rate(std::vector<float>{1.0f});
  const buffer<std::int64_t> step(std::vector<std::int64_t>{1});
  const scratch workspace(llmc::global_norm_workspace_bytes(c.count));
  clip_output clip;
  output params(c.params, misalignment), m(c.m, misalignment), v(c.v, misalignment);
  run({&params, &m, &v, &clip}, [&](cudaStream_t s) {
    llmc::global_norm(clip.get(), workspace, grads, c.count, 1.0f, s);
    llmc::adamw_update(params, m, v, grads, c.count, usual, learning_rate, step, clip.get(), s);
  });
  CHECK(same(params.values(), c.params));
  CHECK(same(m.values(), c.m));
  CHECK(same(v.values(), c.v));
}

TEMPLATE_TEST_CASE_SIG("adamw_update_segments gives the bits of a call a segment", "[adamw]",
                       ((adamw_update_variant Variant), Variant), adamw_update_variant::automatic,
                       adamw_update_variant::element_per_thread,
                       adamw_update_variant::pack_per_thread) {
  LLMC_REQUIRE_GPU();
  const std::vector<llmc::adamw_segment> segments =
      GENERATE(std::vector<llmc::adamw_segment>{{1000, true}},
               std::vector<llmc::adamw_segment>{{999, false}},
               std::vector<llmc::adamw_segment>{{0, false},
                                                {1, true},
                                                {1, false},
                                                {1, true},
                                                {5, false},
                                                {0, true},
                                                {64, false},
                                                {4096, true},
                                                {3, true},
                                                {2, false},
                                                {30000, true},
                                                {7, false}});
  const int misalignment = GENERATE(0, 1);
  std::int64_t count = 0;
  for (const llmc::adamw_segment& s : segments) count += s.count;
  const adamw_case c(count);
  const buffer<float> grads(c.grads, misalignment), learning_rate(std::vector<float>{1.0f});
  const buffer<std::int64_t> step(std::vector<std::int64_t>{7});
  const buffer<clip_state> clip(std::vector<clip_state>{c.clip});
  output params(c.params, misalignment), m(c.m, misalignment), v(c.v, misalignment);
  output expected_params(c.params), expected_m(c.m), expected_v(c.v);
  run({&params, &m, &v, &expected_params, &expected_m, &expected_v}, [&](cudaStream_t s) {
    llmc::adamw_update_segments<Variant>(params, m, v, grads, segments.data(),
                                         static_cast<std::int64_t>(segments.size()), usual,
                                         learning_rate, step, clip.get(), s);
    std::int64_t first = 0;
    for (const llmc::adamw_segment& segment : segments) {
      adamw_parameters parameters = usual;
      if (!segment.decays) parameters.weight_decay = 0;
      llmc::adamw_update<Variant>(expected_params + first, expected_m + first, expected_v + first,
                                  grads + first, segment.count, parameters, learning_rate, step,
                                  clip.get(), s);
      first += segment.count;
    }
  });
  CHECK(same(params.values(), expected_params.values()));
  CHECK(same(m.values(), expected_m.values()));
  CHECK(same(v.values(), expected_v.values()));

  std::vector<double> reference_params = widen(c.params), reference_m = widen(c.m),
                      reference_v = widen(c.v);
  const std::int64_t t = 7;
  llmc::reference::adamw_update_segments(reference_params.data(), reference_m.data(),
                                         reference_v.data(), widen(c.grads).data(), segments.data(),
                                         static_cast<std::int64_t>(segments.size()), usual,
                                         &c.learning_rate, &t, &c.clip);
  check_close("params", params.values(), reference_params, elementwise_tolerance());
}

TEST_CASE("adamw_update of nothing is nothing to do", "[adamw]") {
  LLMC_REQUIRE_GPU();
  CHECK_NOTHROW(llmc::adamw_update(nullptr, nullptr, nullptr, nullptr, 0, usual, nullptr, nullptr,
                                   nullptr, nullptr));
}

TEST_CASE("adamw_update_segments refuses bad arguments", "[adamw]") {
  const std::vector<llmc::adamw_segment> two{{1, true}, {2, false}};
  check_refusals("llmc::adamw_update_segments", llmc::adamw_update_segments<>, array{"params"},
                 array{"m"}, array{"v"}, array{"grads"}, host_array{"segments", two.data()}, 2,
                 usual, array{"learning_rate"}, array{"step"}, optional_array{}, nullptr);
  const auto update = [](std::vector<llmc::adamw_segment> segments) {
    llmc::adamw_update_segments(nullptr, nullptr, nullptr, nullptr, segments.data(),
                                static_cast<std::int64_t>(segments.size()), usual, nullptr, nullptr,
                                nullptr, nullptr);
  };
  CHECK_NOTHROW(update({}));
  CHECK_NOTHROW(update({{0, true}, {0, false}}));
  CHECK_THROWS_WITH(update({{1, true}, {-1, true}}),
                    "llmc::adamw_update_segments: count must be at least 0, got -1");
  std::vector<llmc::adamw_segment> many;
  for (int i = 0; i < 34; ++i) many.push_back({1, i % 2 == 0});
  CHECK_THROWS_WITH(update(many),
                    "llmc::adamw_update_segments: segments must change between those that decay "
                    "and those that do not at most 32 times");
}

TEST_CASE("adamw_update refuses bad arguments", "[adamw]") {
  check_refusals("llmc::adamw_update", llmc::adamw_update<>, array{"params"}, array{"m"},
                 array{"v"}, array{"grads"}, 5, usual, array{"learning_rate"}, array{"step"},
                 optional_array{}, nullptr);
  float x = 0;
  const std::int64_t step = 1;
  const auto update = [&](adamw_parameters parameters) {
    llmc::adamw_update(&x, &x, &x, &x, 1, parameters, &x, &step, nullptr, nullptr);
  };
  CHECK_THROWS_WITH(update({0.9f, 1.0f, 1e-8f, 0.0f}),
                    "llmc::adamw_update: beta2 must be at least 0 and less than 1, got 1.000000");
  CHECK_THROWS_AS(update({-0.5f, 0.9f, 1e-8f, 0.0f}), llmc::invalid_argument);
  CHECK_THROWS_AS(update({std::nanf(""), 0.9f, 1e-8f, 0.0f}), llmc::invalid_argument);
  CHECK_THROWS_AS(update({0.9f, 0.9f, -1e-8f, 0.0f}), llmc::invalid_argument);
  CHECK_THROWS_AS(update({0.9f, 0.9f, 1e-8f, -1.0f}), llmc::invalid_argument);
}
