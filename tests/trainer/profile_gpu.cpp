/// @file
/// A profile of the whole model on the GPU.
#include "../support/skip.hpp"
#include "gpt2/machine/call_profile.hpp"
#include "gpt2/machine/cuda/cuda_backend.hpp"
#include "gpt2_trainer/profile.hpp"
#include "model_support.hpp"

using namespace llmc_test;
using namespace gpt2_trainer;

namespace {

constexpr gpt2_config small{64, 257, 384, 2, 4, 128};

/// The parameters after three steps, the last two of which are timed if there is a profile.
std::vector<float> train(backend<float>& machine, call_profile* profile) {
  gpt2<float> model(small, machine, 2, 64);
  model.set_parameters(strong_parameters(model.layout(), 1, 0.1));
  const batch x(2, 64, small.vocabulary, 11);
  for (std::int64_t step = 1; step <= 3; ++step) {
    if (profile != nullptr && step == 2) profile->start();
    const update_options options{0.9f, 0.95f, 1e-8f, 0.1f, 1e-3f, 1.0f, step};
    CHECK(model.step(x.tokens.data(), x.targets.data(), 2, 64, 0, 1, options).wait().finite);
    if (profile != nullptr && step >= 2) profile->end_step();
  }
  return model.parameters();
}

}  // namespace

TEST_CASE("profile on the GPU: calls have times, and the bits are the same", "[model]") {
  std::string reason;
  const auto machine = make_cuda_backend(llmc::precision::tf32x3, reason);
  if (!machine) LLMC_SKIP("no GPU: " + reason);
  const std::vector<float> wanted = train(*machine, nullptr);
  call_profile profile(*machine);
  CHECK(train(*machine, &profile) == wanted);
  const std::vector<timed_step> steps = profile.finish();
  REQUIRE(steps.size() == 2);
  for (const timed_step& step : steps) {
    CHECK(step.size() == steps.front().size());
    double all = 0;
    for (const timed_call& call : step) {
      INFO(call.name);
      CHECK(call.seconds >= 0);  // an event's clock may not see what does nothing
      all += call.seconds;
    }
    CHECK(all > 1e-5);
    CHECK(all < 1);
  }
}

TEST_CASE("profile on the GPU: the card's rates are measured", "[model]") {
  std::string reason;
  const auto machine = make_cuda_backend(llmc::precision::ieee, reason);
  if (!machine) LLMC_SKIP("no GPU: " + reason);
  const measured_rates measured = machine->measure_rates();
  const peak_rates peak = machine->peak();
  CHECK(measured.bytes_per_second > 0.3 * peak.bytes_per_second);
  CHECK(measured.bytes_per_second < peak.bytes_per_second);
  CHECK(measured.product_flops_per_second > 0.3 * peak.flops_per_second);
  CHECK(measured.product_flops_per_second < 1.1 * peak.flops_per_second);
  CHECK(measured.attention_flops_per_second > 0.9 * measured.product_flops_per_second);
}
