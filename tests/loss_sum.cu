#include <llmc/loss_sum.cuh>
#include <llmc/reference/loss_sum.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "support/clip_state.cuh"
#include "support/compare.hpp"
#include "support/gpu.cuh"
#include "support/random.hpp"
#include "support/sizes.hpp"
#include "support/spoilt_arguments.hpp"

using namespace llmc_test;
using llmc::accumulation;
using llmc::clip_state;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <int BlockSize>
void check_sum(std::int64_t count, accumulation mode, int misalignment) {
  INFO("count " << count << ", misalignment " << misalignment);
  const std::vector<float> values = random_normal(count, 1, 1.0, 3.0);
  const buffer<float> losses(values, misalignment);
  const buffer<double> sum(1);
  double actual = 0.5, expected = 0.5;
  llmc::reference::loss_sum(&expected, values.data(), count, mode);
  const stream s;
  for (int repeat = 0; repeat < 2; ++repeat) {
    const double before = mode == accumulation::add ? 0.5 : std::nan("");
    check_cuda(cudaMemcpy(sum, &before, sizeof before, cudaMemcpyHostToDevice));
    llmc::loss_sum<BlockSize>(sum, losses, count, mode, s);
    s.synchronize();
    check_cuda(cudaMemcpy(&actual, sum, sizeof actual, cudaMemcpyDeviceToHost));
    check_close("sum", std::vector<double>{actual}, std::vector<double>{expected}, {0, 1e-13});
  }
  CHECK(sum.guards_intact());
}

clip_state after_check(const double* loss, const std::uint64_t* out_of_range) {
  const clip_state before{2.0f, 0.5f, 1};
  std::vector<float> words(3);
  std::memcpy(words.data(), &before, sizeof before);
  const buffer<float> clip(words);
  const buffer<double> device_loss(std::vector<double>{loss == nullptr ? 0.0 : *loss});
  const buffer<std::uint64_t> device_count(
      std::vector<std::uint64_t>{out_of_range == nullptr ? 0 : *out_of_range});
  const stream s;
  llmc::skip_update_unless_sound(reinterpret_cast<clip_state*>(clip.get()),
                                 loss == nullptr ? nullptr : device_loss.get(),
                                 out_of_range == nullptr ? nullptr : device_count.get(), s);
  s.synchronize();
  clip_state after;
  check_cuda(cudaMemcpy(&after, clip, sizeof after, cudaMemcpyDeviceToHost));
  clip_state expected = before;
  llmc::reference::skip_update_unless_sound(&expected, loss, out_of_range);
  CHECK(after.norm == expected.norm);
  CHECK(after.scale == expected.scale);
  CHECK(after.finite == expected.finite);
  return after;
}

}  // namespace

TEMPLATE_TEST_CASE_SIG("loss_sum agrees with the reference", "[loss_sum]",
                       ((int BlockSize), BlockSize), 32, 96, 1024) {
  LLMC_REQUIRE_GPU();
  std::vector<std::int64_t> counts(awkward_sizes);
  for (const std::int64_t more : {0, 1025, 16384, 100003}) counts.push_back(more);
  for (const std::int64_t count : counts) {
    for (const accumulation mode : {accumulation::overwrite, accumulation::add}) {
      check_sum<BlockSize>(count, mode, 0);
      check_sum<BlockSize>(count, mode, 1);
    }
  }
}

TEST_CASE("loss_sum can be captured", "[loss_sum]") {
  LLMC_REQUIRE_GPU();
  const buffer<float> losses(std::vector<float>{1, 2, 4});
  output sum(2);  // one double
  run({&sum}, [&](cudaStream_t s) {
    llmc::loss_sum(reinterpret_cast<double*>(static_cast<float*>(sum)), losses, 3,
                   accumulation::overwrite, s);
  });
  double value;
  std::memcpy(&value, sum.values().data(), sizeof value);
  CHECK(value == 7);
}

TEST_CASE("skip_update_unless_sound skips what has no finite loss or tokens out of range",
          "[loss_sum]") {
  LLMC_REQUIRE_GPU();
  const std::uint64_t none = 0, some = 3;
  const double sound = 2.5, not_a_number = std::nan("");
  CHECK(after_check(&sound, &none).finite == 1);
  CHECK(after_check(nullptr, nullptr).finite == 1);
  CHECK(after_check(&sound, &some).finite == 0);
  CHECK(after_check(&infinity, nullptr).finite == 0);
  CHECK(after_check(&not_a_number, &none).finite == 0);
}

TEST_CASE("loss_sum refuses what it cannot do", "[loss_sum]") {
  check_refusals("llmc::loss_sum", llmc::loss_sum<>, array{"sum"}, array{"losses"}, 5,
                 accumulation::overwrite, nullptr);
  check_refusals("llmc::skip_update_unless_sound", llmc::skip_update_unless_sound, array{"clip"},
                 optional_array{}, optional_array{}, nullptr);
  CHECK_THROWS_WITH(llmc::loss_sum(nullptr, nullptr, 0, accumulation::overwrite, nullptr),
                    "llmc::loss_sum: sum must not be null");
}
