/// @file
/// The whole model on the GPU against the same composition on the CPU in double.
#include <cmath>
#include <limits>
#include <memory>

#include "../support/skip.hpp"
#include "gpt2/machine/cuda/cuda_backend.hpp"
#include "gpt2/machine/reference_backend.hpp"
#include "model_support.hpp"

using namespace llmc_test;
using gpt2_trainer::update_options;
using llmc::precision;

namespace {

/// Leaves the test case as skipped where there is no GPU.
#define LLMC_REQUIRE_BACKEND(machine, arithmetic)                           \
  std::string reason;                                                       \
  const auto machine = gpt2_trainer::make_cuda_backend(arithmetic, reason); \
  if (!machine) LLMC_SKIP("no GPU: " + reason)

// maxT, V, Vp, L, NH, C: nothing is a multiple of anything, so the scalar paths run; and GPT-2's
// widths, for the wide ones.
constexpr gpt2_config awkward{37, 61, 128, 2, 3, 39};
constexpr gpt2_config wide{64, 257, 384, 1, 12, 768};

/// The largest difference, relative to a tensor's largest element. In FP32 each of some ten layers
/// adds rounding errors of a random walk over its sums, 2^-24 * sqrt(terms): about 1e-6 in all, of
/// which the worst of many thousand elements is several times that. TF32 rounds operands to 2^-11.
double tolerance_of(precision arithmetic) {
  return llmc::facts_of(arithmetic).is_exact() ? 3e-5 : 3e-2;
}

struct reference_model {
  std::unique_ptr<gpt2_trainer::backend<double>> machine =
      gpt2_trainer::make_reference_backend<double>();
  gpt2<double> model;

  reference_model(const gpt2_config& config, std::int64_t b, std::int64_t t)
      : model(config, *machine, b, t) {}
};

void check_step(gpt2<float>& actual, gpt2<double>& expected, const batch& x, double tolerance) {
  check_close("logits", actual.logits(x.tokens.data(), x.b, x.t),
              expected.logits(x.tokens.data(), x.b, x.t), {tolerance * 4, tolerance});
  const double wanted = forward_backward(expected, x);
  CHECK(std::fabs(mean_loss(actual, x) - wanted) < tolerance * wanted);
  CHECK(std::fabs(forward_backward(actual, x) - wanted) < tolerance * wanted);
  check_tensors(actual.layout(), actual.gradients(), expected.gradients(), tolerance);
}

constexpr update_options options_at(std::int64_t step) {
  // An epsilon well above the rounding errors of a gradient that is 0 in theory, as that of the
  // keys' bias is: AdamW would blow them up to full steps.
  return {0.9f, 0.95f, 1e-3f, 0.1f, 1e-2f, 1.0f, step};
}

}  // namespace

TEST_CASE("model on the GPU: a step agrees with the reference in double", "[model]") {
  const auto arithmetic = GENERATE(precision::ieee, precision::tf32, precision::tf32x3);
  LLMC_REQUIRE_BACKEND(machine, arithmetic);
  const auto config = GENERATE(as<gpt2_config>{}, awkward, wide);
  INFO(to_string(arithmetic) << ", " << config.channels << " channels");
  gpt2<float> actual(config, *machine, 3, 37);
  reference_model expected(config, 3, 37);
  const double deviation = 2 / std::sqrt(static_cast<double>(config.channels));
  const std::vector<float> parameters = strong_parameters(actual.layout(), 1, deviation);
  actual.set_parameters(parameters);
  expected.model.set_parameters(widen(parameters));

  // The shorter batch last: nothing of the longer one may be left.
  for (const auto& x : {batch(3, 37, config.vocabulary, 11), batch(2, 5, config.vocabulary, 12)}) {
    check_step(actual, expected.model, x, tolerance_of(arithmetic));
  }
}

TEST_CASE("model on the GPU: micro-batches add up to one batch", "[model]") {
  LLMC_REQUIRE_BACKEND(machine, precision::ieee);
  gpt2<float> model(awkward, *machine, 4, 37);
  model.set_parameters(strong_parameters(model.layout(), 2));
  const batch x(4, 37, awkward.vocabulary, 13);
  forward_backward(model, x);
  const std::vector<float> gradients = model.gradients();
  for (int half = 0; half < 2; ++half) {
    const std::int64_t first = half * 2 * x.t;
    model.forward_backward(x.tokens.data() + first, x.targets.data() + first, 2, x.t, half, 2);
  }
  check_tensors(model.layout(), model.gradients(), gradients, 1e-5);
}

TEST_CASE("model on the GPU: ten steps of training agree with the reference in double", "[model]") {
  const auto arithmetic = GENERATE(precision::ieee, precision::tf32, precision::tf32x3);
  LLMC_REQUIRE_BACKEND(machine, arithmetic);
  const auto config = GENERATE(as<gpt2_config>{}, awkward, wide);
  INFO(to_string(arithmetic) << ", " << config.channels << " channels");
  const bool is_exact = llmc::facts_of(arithmetic).is_exact();
  gpt2<float> actual(config, *machine, 3, 37);
  reference_model expected(config, 3, 37);
  const std::vector<float> parameters = gpt2_trainer::initialise(actual.layout(), 42);
  actual.set_parameters(parameters);
  expected.model.set_parameters(widen(parameters));
  const batch x(3, 37, config.vocabulary, 14);

  std::vector<double> losses;
  std::vector<double> wanted;
  for (std::int64_t step = 1; step <= 10; ++step) {
    losses.push_back(forward_backward(actual, x));
    wanted.push_back(forward_backward(expected.model, x));
    const auto update = actual.update(options_at(step)).wait();
    const auto wanted_update = expected.model.update(options_at(step)).wait();
    CHECK(update.finite);
    CHECK(std::fabs(update.gradient_norm / wanted_update.gradient_norm - 1) <
          (is_exact ? 1e-4 : 1e-2));
  }
  CHECK(wanted.back() < 0.9 * wanted.front());
  check_close("losses", losses, wanted, {0, is_exact ? 1e-5 : 1e-2});
  check_tensors(actual.layout(), actual.parameters(), expected.model.parameters(),
                is_exact ? 1e-3 : 3e-2);
}

TEST_CASE("model on the GPU: logits in parts and a recomputed GELU agree with the reference",
          "[model]") {
  const auto arithmetic = GENERATE(precision::ieee, precision::tf32x3);
  LLMC_REQUIRE_BACKEND(machine, arithmetic);
  gpt2<float> actual(wide, *machine, 3, 37, {true, 64, 32});
  reference_model expected(wide, 3, 37);
  const std::vector<float> parameters =
      strong_parameters(actual.layout(), 1, 2 / std::sqrt(static_cast<double>(wide.channels)));
  actual.set_parameters(parameters);
  expected.model.set_parameters(widen(parameters));
  check_step(actual, expected.model, batch(3, 37, wide.vocabulary, 11), tolerance_of(arithmetic));
}

TEST_CASE("model on the GPU: replayed steps give the bits of steps that are made", "[model]") {
  const auto arithmetic = GENERATE(precision::ieee, precision::tf32, precision::tf32x3);
  LLMC_REQUIRE_BACKEND(machine, arithmetic);
  const auto config = GENERATE(as<gpt2_config>{}, awkward, wide);
  const batch x(4, 37, config.vocabulary, 15);
  const std::int64_t half = 2 * x.t;
  const auto train = [&](gpt2<float>& model, std::int64_t step) {
    model.forward_backward(x.tokens.data(), x.targets.data(), 2, x.t, 0, 2);
    return model.step(x.tokens.data() + half, x.targets.data() + half, 2, x.t, 1, 2,
                      options_at(step));
  };
  gpt2<float> replayed(config, *machine, 2, 37);
  std::vector<float> parameters = gpt2_trainer::initialise(replayed.layout(), 42);
  replayed.set_parameters(parameters);
  auto moments = replayed.moments();
  std::vector<gpt2_trainer::pending_step> pending;  // nothing waits between the steps
  for (std::int64_t step = 1; step <= 5; ++step) pending.push_back(train(replayed, step));
  for (std::int64_t step = 1; step <= 5; ++step) {
    gpt2<float> made(config, *machine, 2, 37);  // a new model has nothing to replay
    made.set_parameters(parameters);
    made.set_moments(moments);
    const auto wanted = train(made, step).wait();
    const auto result = pending[static_cast<std::size_t>(step - 1)].wait();
    CHECK(result.loss == wanted.loss);
    CHECK(result.gradient_norm == wanted.gradient_norm);
    CHECK(result.finite);
    parameters = made.parameters();
    moments = made.moments();
  }
  CHECK(replayed.parameters() == parameters);
}

TEST_CASE("model on the GPU: training twice gives the same bits", "[model]") {
  LLMC_REQUIRE_BACKEND(machine, precision::tf32);
  const auto train = [&] {
    gpt2<float> model(awkward, *machine, 3, 37);
    model.set_parameters(gpt2_trainer::initialise(model.layout(), 42));
    for (std::int64_t step = 1; step <= 3; ++step) {
      forward_backward(model, batch(3, 37, awkward.vocabulary, 15));
      model.update(options_at(step));
    }
    return model.parameters();
  };
  CHECK(train() == train());
}

TEST_CASE("model on the GPU: a gradient that is not finite skips the update", "[model]") {
  LLMC_REQUIRE_BACKEND(machine, precision::ieee);
  gpt2<float> model(awkward, *machine, 1, 4);
  std::vector<float> parameters = strong_parameters(model.layout(), 3);
  parameters[0] = std::numeric_limits<float>::infinity();
  model.set_parameters(parameters);
  forward_backward(model, batch(1, 4, 1, 16));  // token 0 everywhere
  CHECK_FALSE(model.update(options_at(1)).wait().finite);
  CHECK(model.parameters() == parameters);
  CHECK(model.moments().m == std::vector<float>(parameters.size(), 0.0f));
}

TEST_CASE("model on the GPU: tokens out of range are counted in the error", "[model]") {
  LLMC_REQUIRE_BACKEND(machine, precision::ieee);
  gpt2<float> model(awkward, *machine, 1, 4);
  batch x(1, 4, awkward.vocabulary, 17);
  x.tokens[1] = 61;
  x.targets[2] = -1;
  CHECK_THROWS_WITH(forward_backward(model, x),
                    "2 tokens or targets of this batch are not between 0 and 60");
  CHECK_NOTHROW(forward_backward(model, batch(1, 4, awkward.vocabulary, 18)));
}

TEST_CASE("model on the GPU: a step with tokens out of range updates nothing", "[model]") {
  LLMC_REQUIRE_BACKEND(machine, precision::ieee);
  gpt2<float> model(awkward, *machine, 1, 4);
  const std::vector<float> parameters = strong_parameters(model.layout(), 3);
  model.set_parameters(parameters);
  batch x(1, 4, awkward.vocabulary, 17);
  x.targets[1] = 61;
  auto step = model.step(x.tokens.data(), x.targets.data(), 1, 4, 0, 1, options_at(1));
  CHECK_THROWS_WITH(step.wait(), "1 tokens or targets of this batch are not between 0 and 60");
  CHECK(model.parameters() == parameters);
}

TEST_CASE("model on the GPU: the same product plans give the same bits", "[model]") {
  const auto arithmetic = GENERATE(precision::tf32, precision::tf32x3);
  LLMC_REQUIRE_BACKEND(tuned, arithmetic);
  const batch x(3, 37, wide.vocabulary, 19);
  const auto train = [&](gpt2<float>& model) {
    std::vector<double> losses;
    for (std::int64_t step = 1; step <= 3; ++step) {
      losses.push_back(forward_backward(model, x));
      model.update(options_at(step));
    }
    return losses;
  };
  gpt2<float> first(wide, *tuned, 3, 37);
  const std::vector<float> parameters = gpt2_trainer::initialise(first.layout(), 42);
  first.set_parameters(parameters);
  const std::string untuned = tuned->products()->plans();
  tuned->products()->tune([&] { forward_backward(first, x); });
  const std::string plans = tuned->products()->plans();
  CHECK(plans != untuned);
  CHECK(first.parameters() == parameters);
  const std::vector<double> losses = train(first);

  // Another process, that is, and one that tunes what is tuned already.
  const bool tune_again = GENERATE(false, true);
  const auto loaded = gpt2_trainer::make_cuda_backend(arithmetic, reason);
  loaded->products()->load_plans(plans, "plans");
  gpt2<float> second(wide, *loaded, 3, 37);
  second.set_parameters(parameters);
  if (tune_again) loaded->products()->tune([&] { forward_backward(second, x); });
  CHECK(loaded->products()->plans() == plans);
  CHECK(train(second) == losses);
  CHECK(second.parameters() == first.parameters());
}
