/// @file
/// The whole model on the CPU: its gradients against finite differences, and everything against
/// what PyTorch computed in float64.
#include <cstring>
#include <filesystem>
#include <fstream>

#include <llmc/error.hpp>

#include "../support/finite_difference.hpp"
#include "gpt2/files/checkpoint.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/machine/reference_backend.hpp"
#include "model_support.hpp"

using namespace llmc_test;
using gpt2_trainer::make_reference_backend;
using gpt2_trainer::update_options;

namespace {

// maxT, V, Vp, L, NH, C
constexpr gpt2_config tiny{5, 7, 9, 2, 2, 6};

struct tiny_model {
  std::unique_ptr<gpt2_trainer::backend<double>> machine = make_reference_backend<double>();
  gpt2<double> model;

  explicit tiny_model(std::int64_t batch_size = 4, std::int64_t sequence = 5)
      : model(tiny, *machine, batch_size, sequence) {
    model.set_parameters(widen(strong_parameters(model.layout(), 1)));
  }
};

}  // namespace

TEST_CASE("model: gradients agree with finite differences", "[model]") {
  tiny_model t;
  const batch x(2, 3, tiny.vocabulary, 11);
  std::vector<double> parameters = t.model.parameters();
  const double loss = forward_backward(t.model, x);
  const std::vector<double> gradients = t.model.gradients();
  CHECK(std::fabs(loss - mean_loss(t.model, x)) < 1e-14);
  check_finite_differences("gradients", parameters, gradients, [&] {
    t.model.set_parameters(parameters);
    return mean_loss(t.model, x);
  });
}

TEST_CASE("model: every backward pass overwrites what earlier ones left", "[model]") {
  tiny_model t;
  const batch x(2, 3, tiny.vocabulary, 11);
  const double loss = forward_backward(t.model, x);
  const std::vector<double> gradients = t.model.gradients();
  forward_backward(t.model, batch(4, 5, tiny.vocabulary, 12));
  CHECK(t.model.gradients() != gradients);
  CHECK(forward_backward(t.model, x) == loss);
  CHECK(t.model.gradients() == gradients);
}

TEST_CASE("model: micro-batches add up to one batch", "[model]") {
  tiny_model t;
  const batch x(4, 5, tiny.vocabulary, 13);
  const double loss = forward_backward(t.model, x);
  const std::vector<double> gradients = t.model.gradients();
  for (int half = 0; half < 2; ++half) {
    t.model.forward_backward(x.tokens.data() + half * 10, x.targets.data() + half * 10, 2, 5, half,
                             2);
  }
  CHECK(std::fabs(t.model.loss() - loss) < 1e-14);
  check_close("gradients", t.model.gradients(), gradients, {1e-14, 1e-12});
}

TEST_CASE("model: logits in parts and a recomputed GELU change nothing", "[model]") {
  tiny_model whole;
  const std::int64_t most_rows = GENERATE(1, 7, 19);
  gpt2<double> parts(tiny, *whole.machine, 4, 5, {true, most_rows, most_rows});
  parts.set_parameters(whole.model.parameters());
  const batch x(4, 5, tiny.vocabulary, 13);
  CHECK(parts.logits(x.tokens.data(), 4, 5) == whole.model.logits(x.tokens.data(), 4, 5));
  const batch fewer(3, 4, tiny.vocabulary, 14);
  CHECK(parts.logits(fewer.tokens.data(), 3, 4) == whole.model.logits(fewer.tokens.data(), 3, 4));
  CHECK(std::fabs(mean_loss(parts, x) - mean_loss(whole.model, x)) < 1e-14);
  CHECK(std::fabs(forward_backward(parts, x) - forward_backward(whole.model, x)) < 1e-14);
  check_close("gradients", parts.gradients(), whole.model.gradients(), {1e-14, 1e-12});
}

TEST_CASE("model: a step is its micro-batches and an update", "[model]") {
  tiny_model at_once, one_by_one;
  const batch x(4, 5, tiny.vocabulary, 13);
  const std::int32_t* const tokens = x.tokens.data();
  const std::int32_t* const targets = x.targets.data();
  const gpt2_trainer::update_options options{0.9f, 0.95f, 1e-8f, 0.1f, 0.1f, 1.0f, 1};
  one_by_one.model.forward_backward(tokens, targets, 2, 5, 0, 2);
  one_by_one.model.forward_backward(tokens + 10, targets + 10, 2, 5, 1, 2);
  const auto wanted = one_by_one.model.update(options).wait();
  at_once.model.forward_backward(tokens, targets, 2, 5, 0, 2);
  const auto result = at_once.model.step(tokens + 10, targets + 10, 2, 5, 1, 2, options).wait();
  CHECK(result.loss == wanted.loss);
  CHECK(result.gradient_norm == wanted.gradient_norm);
  CHECK(result.finite);
  CHECK(at_once.model.parameters() == one_by_one.model.parameters());
}

TEST_CASE("model: a step with tokens out of range updates nothing", "[model]") {
  tiny_model t;
  batch x(1, 5, tiny.vocabulary, 15);
  x.tokens[2] = 7;
  const std::vector<double> parameters = t.model.parameters();
  auto step = t.model.step(x.tokens.data(), x.targets.data(), 1, 5, 0, 1,
                           {0.9f, 0.95f, 1e-8f, 0.1f, 0.1f, 1.0f, 1});
  CHECK_THROWS_WITH(step.wait(), "1 tokens or targets of this batch are not between 0 and 6");
  CHECK(t.model.parameters() == parameters);
}

TEST_CASE("model: ignored targets do not count", "[model]") {
  tiny_model t;
  batch x(1, 5, tiny.vocabulary, 14);
  const std::vector<double> logits = t.model.logits(x.tokens.data(), 1, 5);
  double exponentials = 0;
  for (std::size_t v = 0; v < 7; ++v) exponentials += std::exp(logits[2 * 7 + v]);
  x.targets = {llmc::ignored_target, llmc::ignored_target, 3, llmc::ignored_target,
               llmc::ignored_target};
  const auto loss = t.model.evaluate(x.tokens.data(), x.targets.data(), 1, 5);
  CHECK(loss.tokens == 1);
  CHECK(std::fabs(loss.sum - (std::log(exponentials) - logits[2 * 7 + 3])) < 1e-12);
}

TEST_CASE("model: tokens out of range are counted in the error", "[model]") {
  tiny_model t;
  batch x(1, 5, tiny.vocabulary, 15);
  x.tokens[0] = 7;
  x.tokens[3] = -1;
  x.targets[2] = 7;
  CHECK_THROWS_WITH(forward_backward(t.model, x),
                    "3 tokens or targets of this batch are not between 0 and 6");
  CHECK_NOTHROW(forward_backward(t.model, batch(1, 5, tiny.vocabulary, 16)));
}

TEST_CASE("model: one position's logits are those of all positions", "[model]") {
  tiny_model t;
  const batch x(1, 5, tiny.vocabulary, 17);
  const std::vector<double> all = t.model.logits(x.tokens.data(), 1, 5);
  for (std::int64_t position = 0; position < 5; ++position) {
    const auto first = all.begin() + position * 7;
    CHECK(t.model.logits_at(x.tokens.data(), 5, position) == std::vector<double>(first, first + 7));
  }
}

TEST_CASE("model: an update that is not finite is skipped", "[model]") {
  tiny_model t;
  const batch x(2, 3, tiny.vocabulary, 18);
  std::vector<double> parameters = t.model.parameters();
  parameters[0] = std::numeric_limits<double>::infinity();
  t.model.set_parameters(parameters);
  forward_backward(t.model, batch(2, 3, 1, 18));  // token 0 everywhere
  const auto result = t.model.update({0.9f, 0.95f, 1e-8f, 0.1f, 0.1f, 1.0f, 1}).wait();
  CHECK_FALSE(result.finite);
  CHECK(t.model.parameters() == parameters);
}

TEST_CASE("model: extents that do not fit are refused", "[model]") {
  const auto machine = make_reference_backend<float>();
  CHECK_THROWS_WITH(gpt2<float>(tiny, *machine, 1, 6), "sequence must be between 1 and 5, got 6");
  gpt2<float> model(tiny, *machine, 2, 4);
  const batch x(2, 5, tiny.vocabulary, 19);
  CHECK_THROWS_WITH(forward_backward(model, x), "sequence must be between 1 and 4, got 5");
  CHECK_THROWS_AS(model.set_parameters({1.0f}), std::invalid_argument);
  CHECK_THROWS_WITH(gpt2<float>({5, 7, 9, 2, 4, 6}, *machine, 1, 1),
                    "heads must divide channels, got 4 heads and 6 channels");
}

TEST_CASE("parameters: GPT-2's sizes and initialisation", "[model]") {
  // The 124M, 350M, 774M and 1558M of the literature count V rows of wte, not Vp.
  const auto count = [](const char* name) {
    const gpt2_config config = gpt2_trainer::named_config(name, 50257);
    const auto padding = (config.padded_vocabulary - config.vocabulary) * config.channels;
    return parameter_layout(config).count() - padding;
  };
  CHECK(count("d12") == 124439808);
  CHECK(count("d012") == 124439808);
  CHECK(count("d24") == 354823168);
  CHECK(count("d36") == 774030080);
  CHECK(count("d48") == 1557611200);
  CHECK(gpt2_trainer::named_config("d6", 256).channels == 384);
  CHECK(gpt2_trainer::named_config("d18", 256).heads == 14);
  CHECK(gpt2_trainer::named_config("d12", 256).max_sequence == 1024);
  CHECK(gpt2_trainer::named_config("d72", 256).head_size() == 96);
  CHECK(gpt2_trainer::named_config("d84", 256).channels == 3456);
  CHECK_THROWS_AS(gpt2_trainer::named_config("d5", 256), gpt2_trainer::input_error);
  // The names llm.c gives GPT-3's sizes, by channels; each with GPT-3's own head size.
  const std::vector<std::array<std::int64_t, 3>> gpt3{
      {384, 6, 64},    {768, 12, 64},  {1024, 24, 64},  {1536, 24, 96},
      {2048, 24, 128}, {2560, 32, 80}, {4096, 32, 128}, {12288, 96, 128}};
  for (const auto& [channels, layers, head_size] : gpt3) {
    const gpt2_config config =
        gpt2_trainer::named_config("gpt3:c" + std::to_string(channels), 50257);
    CHECK(config.channels == channels);
    CHECK(config.layers == layers);
    CHECK(config.head_size() == head_size);
    CHECK(config.max_sequence == 2048);
  }

  const gpt2_config config{64, 100, 128, 8, 4, 64};
  const parameter_layout layout(config);
  const std::vector<float> values = gpt2_trainer::initialise(layout, 42);
  CHECK(values == gpt2_trainer::initialise(layout, 42));
  CHECK(values != gpt2_trainer::initialise(layout, 43));
  for (const parameter_tensor& tensor : layout) {
    double sum = 0;
    double squares = 0;
    const std::int64_t drawn = tensor.count - tensor.padding;
    for (std::int64_t i = 0; i < drawn; ++i) {
      const double value = values[static_cast<std::size_t>(tensor.offset + i)];
      sum += value;
      squares += value * value;
    }
    INFO(tensor.name);
    const auto n = static_cast<double>(drawn);
    switch (tensor.initial) {
      case gpt2_trainer::initial_value::zero: CHECK(squares == 0); break;
      case gpt2_trainer::initial_value::one: CHECK(sum == n); break;
      case gpt2_trainer::initial_value::normal:
      case gpt2_trainer::initial_value::normal_scaled: {
        const bool scaled = tensor.initial == gpt2_trainer::initial_value::normal_scaled;
        const double deviation = scaled ? 0.02 / 4 : 0.02;  // sqrt(2 L) = 4
        // Five standard errors of mean and deviation.
        CHECK(std::fabs(sum / n) < 5 * deviation / std::sqrt(n));
        CHECK(std::fabs(std::sqrt(squares / n) / deviation - 1) < 5 / std::sqrt(2 * n));
        break;
      }
    }
  }
  const std::int64_t padding_begins = 100 * 64;
  CHECK(std::count(values.begin() + padding_begins, values.begin() + 128 * 64, 0.0f) == 28 * 64);
}

namespace {

/// What make_fixtures.py wrote; it documents the files and the optimiser's constants.
struct fixture {
  gpt2_trainer::model_file model;
  batch x{2, 7, 61, 0};
  double loss = 0;
  std::vector<double> logits;
  std::vector<double> gradients;
  std::vector<double> losses;
  std::vector<double> trained;
};

constexpr update_options fixture_update(std::int64_t step) {
  return {0.875f, 0.96875f, 0x1p-20f, 0.125f, 0x1p-7f, 1.0f, step};
}

template <class Number>
std::vector<Number> read_numbers(std::ifstream& file, std::int64_t count) {
  std::vector<Number> values(static_cast<std::size_t>(count));
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(Number)));
  REQUIRE(file.good());
  return values;
}

fixture read_fixture() {
  const std::filesystem::path folder = LLMC_TEST_FIXTURES;
  fixture result;
  result.model = gpt2_trainer::read_model(folder / "tiny_gpt2.bin");
  const std::int64_t parameters = parameter_layout(result.model.config).count();

  std::ifstream state(folder / "tiny_gpt2_debug_state.bin", std::ios::binary);
  state.seekg(1024);
  result.x.tokens = read_numbers<std::int32_t>(state, 14);
  result.x.targets = read_numbers<std::int32_t>(state, 14);

  std::ifstream numbers(folder / "tiny_gpt2_float64.bin", std::ios::binary);
  result.loss = read_numbers<double>(numbers, 1)[0];
  result.logits = read_numbers<double>(numbers, 14 * result.model.config.vocabulary);
  result.gradients = read_numbers<double>(numbers, parameters);
  result.losses = read_numbers<double>(numbers, 10);
  result.trained = read_numbers<double>(numbers, parameters);
  return result;
}

/// Logits, loss, gradients and ten steps of training against PyTorch's.
template <class Real>
void check_against_pytorch(double tolerance, double training_tolerance) {
  const fixture expected = read_fixture();
  const auto machine = make_reference_backend<Real>();
  gpt2<Real> model(expected.model.config, *machine, 2, 7);
  model.set_parameters({expected.model.parameters.begin(), expected.model.parameters.end()});
  check_close("logits", model.logits(expected.x.tokens.data(), 2, 7), expected.logits,
              {tolerance, tolerance});
  check_close("loss", std::vector<double>{forward_backward(model, expected.x)},
              std::vector<double>{expected.loss}, {0, tolerance});
  check_tensors(model.layout(), model.gradients(), expected.gradients, tolerance);

  std::vector<double> losses;
  for (std::int64_t step = 1; step <= 10; ++step) {
    losses.push_back(forward_backward(model, expected.x));
    CHECK(model.update(fixture_update(step)).wait().finite);
  }
  check_close("losses", losses, expected.losses, {0, training_tolerance});
  check_tensors(model.layout(), model.parameters(), expected.trained, training_tolerance);
}

}  // namespace

TEST_CASE("model: logits, loss, gradients and ten steps agree with PyTorch's", "[model]") {
  check_against_pytorch<double>(1e-10, 1e-6);
}

TEST_CASE("model: in FP32, too", "[model]") {
  check_against_pytorch<float>(2e-5, 1e-3);
}

TEST_CASE("model: recordings are told apart by all that their calls depend on", "[model]") {
  const auto differ = [](const gpt2_trainer::recorded_calls& a,
                         const gpt2_trainer::recorded_calls& b) { return a < b || b < a; };
  gpt2_trainer::recorded_calls none;
  gpt2_trainer::recorded_calls zeros;
  CHECK_FALSE(differ(none, zeros));
  zeros.update = gpt2_trainer::recorded_calls::update_by{0, 0, 0, 0, 0};
  CHECK(differ(none, zeros));  // an update by zeros is an update
  gpt2_trainer::recorded_calls first = zeros;
  gpt2_trainer::recorded_calls second = zeros;
  first.gradients = gpt2_trainer::recorded_calls::gradients_of{2, 3, true, 2};
  second.gradients = gpt2_trainer::recorded_calls::gradients_of{2, 3, false, 2};
  CHECK(differ(first, zeros));
  CHECK(differ(first, second));
  second.gradients->overwrite = true;
  CHECK_FALSE(differ(first, second));
}

TEST_CASE("model: what the CPU's layers refuse can be caught by its type", "[model]") {
  const auto machine = make_reference_backend<float>();
  CHECK_THROWS_AS(machine->run(gpt2_trainer::calls::gelu_forward<float>{nullptr, nullptr, -1}),
                  llmc::invalid_argument);
}
