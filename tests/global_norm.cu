#include <llmc/global_norm.cuh>
#include <llmc/reference/global_norm.hpp>

#include <cmath>
#include <limits>
#include <vector>

#include "support/clip_state.cuh"
#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/random.hpp"
#include "support/refusal.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::clip_state;
using llmc::global_norm_variant;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

template <global_norm_variant Variant = global_norm_variant::automatic, int BlockSize = 256>
clip_state norm_of(const std::vector<float>& values, float max_norm, int misalignment = 0) {
  const auto count = static_cast<std::int64_t>(values.size());
  const buffer<float> grads(values, misalignment);
  const scratch workspace(llmc::global_norm_workspace_bytes(count));
  clip_output result;
  run({&result}, [&](cudaStream_t s) {
    llmc::global_norm<Variant, BlockSize>(result.get(), workspace, grads, count, max_norm, s);
  });
  CHECK(workspace.guards_intact());
  return result.state();
}

clip_state reference_norm_of(const std::vector<float>& values, float max_norm) {
  clip_state result{};
  llmc::reference::global_norm(&result, values.data(), static_cast<std::int64_t>(values.size()),
                               max_norm);
  return result;
}

/// Sums in double differ by far less than the one rounding to float, which may fall either way.
void check_state(const clip_state& actual, const clip_state& expected) {
  check_close("norm and scale", std::vector<float>{actual.norm, actual.scale},
              std::vector<float>{expected.norm, expected.scale}, {0, 1.2e-7});
  CHECK(actual.finite == expected.finite);
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("global_norm agrees with the reference", "[global_norm]",
                       ((global_norm_variant Variant, int BlockSize), Variant, BlockSize),
                       (global_norm_variant::automatic, 256), (global_norm_variant::two_stage, 32),
                       (global_norm_variant::two_stage, 96),
                       (global_norm_variant::two_stage, 1024)) {
  LLMC_REQUIRE_GPU();
  std::vector<std::int64_t> counts(awkward_sizes);
  for (const std::int64_t more : {4095, 4096, 4097, 100003, 5000001}) counts.push_back(more);
  for (const std::int64_t count : counts) {
    const std::vector<float> grads = random_normal(count, 1);
    for (const int misalignment : {0, 1}) {
      INFO("count " << count << ", misalignment " << misalignment);
      check_state(norm_of<Variant, BlockSize>(grads, 1.0f, misalignment),
                  reference_norm_of(grads, 1.0f));
    }
  }
}

TEMPLATE_TEST_CASE_SIG("global_norm by atomics adds every square once", "[global_norm]",
                       ((int BlockSize), BlockSize), 96, 1024) {
  LLMC_REQUIRE_GPU();
  constexpr auto atomics = global_norm_variant::atomics;
  std::vector<std::int64_t> counts(awkward_sizes);
  for (const std::int64_t more : {0, 4097, 100003, 5000001}) counts.push_back(more);
  for (const std::int64_t count : counts) {
    std::vector<float> grads;  // whole numbers: the sum of their squares is exact in any order
    for (const std::int32_t value : random_integers(count, 17, 1)) {
      grads.push_back(static_cast<float>(value - 8));
    }
    for (const int misalignment : {0, 1}) {
      INFO("count " << count << ", misalignment " << misalignment);
      check_state(norm_of<atomics, BlockSize>(grads, 1.0f, misalignment),
                  reference_norm_of(grads, 1.0f));
    }
  }
}

TEST_CASE("global_norm scales to max_norm, or not at all", "[global_norm]") {
  LLMC_REQUIRE_GPU();
  const std::vector<float> grads{3, 0, 0, 0, -4};
  check_state(norm_of(grads, 1.0f), {5.0f, 0.2f, 1});
  check_state(norm_of(grads, 4.0f), {5.0f, 0.8f, 1});
  for (const float off : {5.0f, 6.0f, infinity, 0.0f, -1.0f}) {
    check_state(norm_of(grads, off), {5.0f, 1.0f, 1});
  }
}

TEST_CASE("global_norm of nothing and of zeros", "[global_norm]") {
  LLMC_REQUIRE_GPU();
  check_state(norm_of({}, 1.0f), {0.0f, 1.0f, 1});
  check_state(norm_of(std::vector<float>(1000, 0.0f), 1.0f), {0.0f, 1.0f, 1});
  clip_output result;
  run({&result}, [&](cudaStream_t s) { llmc::global_norm(result.get(), {}, nullptr, 0, 1.0f, s); });
  check_state(result.state(), {0.0f, 1.0f, 1});
}

TEMPLATE_TEST_CASE_SIG("global_norm finds a single gradient that is not finite", "[global_norm]",
                       ((global_norm_variant Variant), Variant), global_norm_variant::automatic,
                       global_norm_variant::atomics) {
  LLMC_REQUIRE_GPU();
  const float bad = GENERATE(as<float>{}, infinity, -infinity, std::nanf(""), -std::nanf(""));
  const std::vector<float> good = random_normal(10003, 1);
  for (const std::size_t place : {0, 1, 3, 4999, 9999, 10000, 10002}) {
    std::vector<float> grads = good;
    grads[place] = bad;
    for (const float max_norm : {0.0f, 1.0f}) {
      INFO("gradient " << place << " is " << bad << ", max_norm " << max_norm);
      const clip_state state = norm_of<Variant>(grads, max_norm);
      CHECK(!std::isfinite(state.norm));
      CHECK(state.scale == 0.0f);
      CHECK(state.finite == 0);
    }
  }
  // An infinity must not meet its opposite and vanish, nor be hidden by a NaN.
  CHECK(norm_of<Variant>({infinity, -infinity}, 1.0f).finite == 0);
  CHECK(norm_of<Variant>({std::nanf(""), infinity}, 1.0f).finite == 0);
}

TEST_CASE("global_norm sums squares that a float cannot hold", "[global_norm]") {
  LLMC_REQUIRE_GPU();
  for (const float value : {1e30f, 1e-30f}) {
    const std::vector<float> grads(100, value);
    const clip_state state = norm_of(grads, 1.0f);
    check_state(state, reference_norm_of(grads, 1.0f));
    CHECK(state.finite == 1);
  }
  const clip_state overflow = norm_of({3e38f, 3e38f}, 1.0f);
  CHECK(overflow.norm == infinity);
  CHECK(overflow.scale == 0.0f);
  CHECK(overflow.finite == 0);
}

TEMPLATE_TEST_CASE_SIG("global_norm passes 2^31 elements", "[global_norm][large]",
                       ((global_norm_variant Variant), Variant), global_norm_variant::automatic,
                       global_norm_variant::atomics) {
  LLMC_REQUIRE_GPU();
  const std::int64_t count = (std::int64_t{1} << 31) + 5;
  LLMC_REQUIRE_GPU_BYTES(static_cast<std::size_t>(count) * sizeof(float));
  const buffer<float> grads(count);
  check_cuda(cudaMemset(grads, 0, static_cast<std::size_t>(count) * sizeof(float)));
  const std::vector<float> ends{3, 4};
  check_cuda(cudaMemcpy(grads, &ends[0], sizeof(float), cudaMemcpyHostToDevice));
  check_cuda(cudaMemcpy(grads + (count - 1), &ends[1], sizeof(float), cudaMemcpyHostToDevice));
  check_cuda(cudaDeviceSynchronize());
  const scratch workspace(llmc::global_norm_workspace_bytes(count));
  clip_output result;
  run({&result}, [&](cudaStream_t s) {
    llmc::global_norm<Variant>(result.get(), workspace, grads, count, 1.0f, s);
  });
  check_state(result.state(), {5.0f, 0.2f, 1});
}

TEST_CASE("global_norm refuses bad arguments", "[global_norm]") {
  check_refusals("llmc::global_norm", llmc::global_norm<>, array{"result"},
                 needed_scratch{llmc::global_norm_workspace_bytes(5)}, array{"grads"}, 5, 1.0f,
                 nullptr);
  check_refused("llmc::global_norm: max_norm must be a number, got NaN",
                [] { llmc::global_norm(nullptr, {}, nullptr, 0, std::nanf(""), nullptr); });
  CHECK_THROWS_AS(llmc::global_norm_workspace_bytes(-1), llmc::invalid_argument);
  CHECK(llmc::global_norm_workspace_bytes(0) == 0);
}
