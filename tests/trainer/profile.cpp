/// @file
/// What a profile counts, and that it changes nothing.
#include "gpt2_trainer/profile.hpp"

#include <map>
#include <memory>
#include <utility>

#include "gpt2/machine/call_profile.hpp"
#include "gpt2/machine/reference_backend.hpp"
#include "model_support.hpp"

using namespace llmc_test;
using namespace gpt2_trainer;

namespace {

// maxT, V, Vp, L, NH, C
constexpr gpt2_config tiny{5, 7, 9, 2, 2, 6};
constexpr std::int64_t b = 2;
constexpr std::int64_t t = 3;

constexpr update_options options_at(std::int64_t step) {
  return {0.9f, 0.95f, 1e-8f, 0.1f, 1e-2f, 1.0f, step};
}

/// All that a model holds after two steps of two micro-batches; `begin` and `end` are called round
/// the second one.
template <class Begin, class End>
std::vector<std::vector<float>> train(backend<float>& machine, Begin begin, End end) {
  gpt2<float> model(tiny, machine, b, t);
  model.set_parameters(strong_parameters(model.layout(), 1));
  const batch first(b, t, tiny.vocabulary, 11);
  const batch second(b, t, tiny.vocabulary, 12);
  for (std::int64_t step = 1; step <= 2; ++step) {
    if (step == 2) begin();
    model.forward_backward(first.tokens.data(), first.targets.data(), b, t, 0, 2);
    CHECK(model.step(second.tokens.data(), second.targets.data(), b, t, 1, 2, options_at(step))
              .wait()
              .finite);
    if (step == 2) end();
  }
  return {model.parameters(), model.gradients(), model.moments().m, model.moments().v};
}

struct counted {
  std::int64_t calls;
  double flops;
  double bytes;

  bool operator==(const counted& other) const {
    return calls == other.calls && flops == other.flops && bytes == other.bytes;
  }
};

std::ostream& operator<<(std::ostream& out, const counted& c) {
  return out << c.calls << " calls, " << c.flops << " flops, " << c.bytes << " bytes";
}

/// A call with a name, a cost in operations and bytes, and a time.
timed_call call(const std::string& name, double flops, double bytes, double seconds,
                call_kind kind = call_kind::product) {
  return {name, {flops, bytes, kind}, seconds};
}

}  // namespace

TEST_CASE("profile: a step has the same bits while its calls are timed", "[profile]") {
  const auto nothing = [] {};
  const auto plain = make_reference_backend<float>();
  const auto wanted = train(*plain, nothing, nothing);
  const auto machine = make_reference_backend<float>();
  call_profile profile(*machine);
  CHECK(train(*machine, nothing, nothing) == wanted);
  std::size_t calls = 0;
  const auto end = [&] {
    profile.end_step();
    calls = profile.finish().at(0).size();
  };
  CHECK(train(
            *machine, [&] { profile.start(); }, end) == wanted);
  CHECK(calls > 100);
}

TEST_CASE("profile: operations and traffic of a step are those counted by hand", "[profile]") {
  const auto machine = make_reference_backend<float>();
  call_profile profile(*machine);
  gpt2<float> model(tiny, *machine, b, t);
  model.set_parameters(strong_parameters(model.layout(), 1));
  REQUIRE(model.parameter_count() == 1116);
  const batch x(b, t, tiny.vocabulary, 11);
  profile.start();
  model.step(x.tokens.data(), x.targets.data(), b, t, 0, 1, options_at(1)).wait();
  profile.end_step();
  const std::vector<timed_step> steps = profile.finish();
  REQUIRE(steps.size() == 1);

  // 6 rows of 6 channels; 2 layers. Traffic is 4 bytes times the numbers of each array.
  const std::map<std::string, counted> wanted{
      {"upload", {4, 0, 0}},  // tokens, targets, learning rate, step
      {"download", {1, 0, 0}},
      {"zero", {2, 0, 8 + 4 * 2 * 6}},  // a counter; positions that no token has
      {"encoder_forward", {1, 0, 4 * (6 + (6 + 3 + 6) * 6)}},
      {"layernorm_forward", {1, 0, 4 * (2 * 36 + 12 + 12)}},
      {"matmul_forward 6 -> 18", {2, 2 * 2 * 6 * 108, 2 * 4 * (36 + 108 + 108 + 18)}},
      {"attention_forward", {2, 2 * 2 * 36 * 3, 2 * 4 * (4 * 36 + 12)}},
      {"matmul_forward 6 -> 6", {2, 2 * 2 * 6 * 36, 2 * 4 * (36 + 36 + 36 + 6)}},
      {"residual_layernorm_forward", {4, 0, 4 * 4 * (4 * 36 + 12 + 12)}},
      {"matmul_gelu_forward 6 -> 24", {2, 2 * 2 * 6 * 144, 2 * 4 * (36 + 144 + 2 * 144 + 24)}},
      {"matmul_forward 24 -> 6", {2, 2 * 2 * 6 * 144, 2 * 4 * (144 + 144 + 36 + 6)}},
      {"matmul_forward 6 -> 9", {1, 2 * 6 * 54, 4 * (36 + 54 + 54)}},
      {"classifier_forward_backward", {1, 0, 4 * (6 * (7 + 9) + 12)}},
      {"matmul_backward 6 -> 9 dinp", {1, 2 * 6 * 54, 4 * (54 + 54 + 36)}},
      {"matmul_backward 6 -> 9 dweight", {1, 2 * 6 * 54, 4 * (54 + 36 + 54)}},
      {"loss_sum", {1, 0, 4 * 6}},
      // The last layernorm has no gradient that goes past it.
      // Nor is there a linear layer before the first one.
      {"residual_layernorm_backward", {5, 0, 4 * (5 * (4 * 36 + 12 + 24) - 36 - 6)}},
      {"gelu_matmul_backward 24 -> 6 dgelu_inp",
       {2, 2 * 2 * 6 * 144, 2 * 4 * (36 + 144 + 2 * 144 + 24)}},
      {"gelu_matmul_backward 24 -> 6 dweight", {2, 2 * 2 * 6 * 144, 2 * 4 * (36 + 144 + 144)}},
      {"matmul_backward 6 -> 24 dinp", {2, 2 * 2 * 6 * 144, 2 * 4 * (144 + 144 + 36)}},
      {"matmul_backward 6 -> 24 dweight", {2, 2 * 2 * 6 * 144, 2 * 4 * (144 + 36 + 144)}},
      {"matmul_backward 6 -> 6 dinp", {2, 2 * 2 * 6 * 36, 2 * 4 * (36 + 36 + 36)}},
      {"matmul_backward 6 -> 6 dweight", {2, 2 * 2 * 6 * 36, 2 * 4 * (36 + 36 + 36)}},
      {"attention_backward", {2, 2 * 5 * 36 * 3, 2 * 4 * (8 * 36 + 12 + 18)}},
      {"matmul_backward 6 -> 18 dinp", {2, 2 * 2 * 6 * 108, 2 * 4 * (108 + 108 + 36)}},
      {"matmul_backward 6 -> 18 dweight", {2, 2 * 2 * 6 * 108, 2 * 4 * (108 + 36 + 108)}},
      // The head has left its gradient in that of the token embedding, which is added to.
      {"encoder_backward", {1, 0, 4 * (6 + (6 + 2 * 6 + 3) * 6)}},
      {"global_norm", {1, 0, 4 * 1116}},
      {"skip_update_unless_sound", {1, 0, 0}},
      {"adamw_update_segments", {1, 0, 4 * 7 * 1116}}};
  std::map<std::string, counted> actual;
  for (const profile_row& row : profile_rows(steps, {})) {
    actual[row.name] = {row.calls, row.flops, row.bytes};
    CHECK(row.seconds >= 0);
    CHECK(row.least_seconds == 0);
  }
  for (const auto& [name, counts] : wanted) {
    INFO(name);
    CHECK(actual[name] == counts);
  }
  CHECK(actual.size() == wanted.size());
}

TEST_CASE("profile: rows are medians over steps, the largest first, against what bounds them",
          "[profile]") {
  const std::vector<timed_step> steps{{call("a", 8, 1, 1), call("b", 1, 8, 2), call("a", 8, 1, 1)},
                                      {call("a", 8, 1, 5), call("b", 1, 8, 3), call("a", 8, 1, 5)},
                                      {call("a", 8, 1, 2), call("b", 1, 8, 8), call("a", 8, 1, 3)}};
  const std::vector<profile_row> rows = profile_rows(steps, {2, 4, 1});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].name == "a");
  CHECK(rows[0].calls == 2);
  CHECK(rows[0].seconds == 5);
  CHECK(rows[0].bound_by_flops);
  CHECK(rows[0].rate() == 16.0 / 5);
  CHECK(rows[0].least_seconds == 4);
  CHECK(rows[1].name == "b");
  CHECK(rows[1].seconds == 3);
  CHECK_FALSE(rows[1].bound_by_flops);
  CHECK(rows[1].rate() == 8.0 / 3);
  CHECK(rows[1].least_seconds == 4);
}

TEST_CASE("profile: attention has a ceiling of its own", "[profile]") {
  const std::vector<timed_step> steps{{call("a", 8, 0, 1, call_kind::attention)}};
  CHECK(profile_rows(steps, {2, 4, 1}).front().least_seconds == 8);
}

TEST_CASE("profile: a table has rates and shares where they are known", "[profile]") {
  profile_result result{
      "machine",
      tiny,
      1,
      4,
      4,
      {2e12, 4e12, 1e12},
      {{call("products", 6e12, 1, 3), call("copies", 0, 1e12, 1), call("nothing", 0, 0, 1)}},
      {4.5}};
  const auto has = [&](const std::string& part) {
    const std::string text = profile_table(result);
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has("products              1  3000.0000   60.0%       2 TF/s       50.0%\n");
  has("copies                1  1000.0000   20.0%       1 TB/s       50.0%\n");
  has("nothing               1  1000.0000   20.0%            -           -\n");
  has("sum of the calls      3  5000.0000  100.0%            -       40.0%\n");
  has("a step by itself         4500.0000\n");
  has("copy 2 TB/s, products 4 TF/s");
  result.ceilings = {};
  has("products              1  3000.0000   60.0%       2 TF/s           -\n");
  has("No ceilings");
}
