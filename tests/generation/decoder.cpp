#include "gpt2/model/gpt2_decoder.hpp"

#include <algorithm>

#include "gpt2/generation/generation.hpp"
#include "gpt2/machine/reference_backend.hpp"
#include "gpt2/model/whole_text_model.hpp"

#include "../support/catch.hpp"

using namespace gpt2_trainer;

namespace {

/// A model twice, on two machines: with a cache and without.
struct two_models {
  explicit two_models(std::int64_t context, std::int64_t batch)
      : config{context, 29, 32, 2, 2, 12},
        network(config, *machine, 1, context),
        whole(network, context),
        decoder(config, *other_machine, batch, context) {
    std::vector<float> parameters = initialise(parameter_layout(config), 5);
    for (float& each : parameters) each *= 8;  // so that tokens and their places matter
    network.set_parameters(parameters);
    decoder.set_parameters(parameters);
  }

  /// Checks that both make the same of these texts.
  void check(const std::vector<const token_text*>& texts) {
    CHECK(decoder.logits(texts) == whole.logits(texts));
  }

  gpt2_config config;
  std::unique_ptr<backend<float>> machine = make_reference_backend<float>();
  std::unique_ptr<backend<float>> other_machine = make_reference_backend<float>();
  gpt2<float> network;
  whole_text_model whole;
  gpt2_decoder decoder;
};

token_text random_text(std::size_t length, std::uint64_t seed) {
  random_sequence random(seed);
  token_text text(length);
  for (std::int32_t& token : text) token = static_cast<std::int32_t>(random.below(29));
  return text;
}

struct kept final : text_receiver {
  bool on_token(std::size_t text, std::int32_t token) override {
    tokens.resize(std::max(tokens.size(), text + 1));
    tokens[text].push_back(token);
    return true;
  }
  void on_end(std::size_t, text_end) override {}

  std::vector<token_text> tokens;
};

}  // namespace

TEST_CASE("decoder: the logits are those of the whole forward pass", "[decoder]") {
  two_models models(16, 3);
  token_text a = random_text(1, 1), b = random_text(7, 2), c = random_text(40, 3);
  for (int step = 0; step < 40; ++step) {  // past the context, where the texts move
    models.check({&a, &b, &c});
    a.push_back(step % 29);
    b.push_back((step * 7) % 29);
    c.push_back((step * 5) % 29);
  }
}

TEST_CASE("decoder: texts change, pause and go on at their places", "[decoder]") {
  two_models models(16, 2);
  token_text a = random_text(5, 1), b = random_text(9, 2);
  models.check({&a, &b});
  models.check({nullptr, &b});  // the same again
  b.push_back(3);
  models.check({nullptr, &b});
  a.push_back(4);
  models.check({&a, nullptr});
  models.check({&b, &a});  // they change places
  b.resize(4);
  models.check({&b});
  b[1] = b[1] == 0 ? 1 : 0;
  models.check({&b});
}

TEST_CASE("decoder: a prompt of more rows than a pass has", "[decoder]") {
  two_models models(400, 2);
  const token_text a = random_text(390, 1), b = random_text(399, 2);
  models.check({&a, &b});
}

TEST_CASE("decoder: each token is computed once until the text moves", "[decoder]") {
  two_models models(16, 1);
  token_text text = random_text(6, 1);
  for (int step = 0; step < 11; ++step) {
    models.decoder.logits({&text});
    text.push_back(step);
  }
  CHECK(models.decoder.computed_tokens() == 16);
  models.decoder.logits({&text});  // 17 tokens, of which it sees the last 9
  CHECK(models.decoder.computed_tokens() == 16 + 9);
}

TEST_CASE("decoder: texts are those of the whole forward pass", "[decoder]") {
  two_models models(12, 3);
  std::vector<generation_request> requests;
  for (std::uint64_t i = 0; i < 7; ++i) {
    requests.push_back({random_text(1 + 3 * i, i), random_sequence(i)});
  }
  for (const double temperature : {0.0, 1.0}) {
    kept whole, cached;
    const generation_options options{{temperature, 0, 0.9, 1.1}, 30};
    generate(models.whole, requests, options, whole);
    generate(models.decoder, requests, options, cached);
    CHECK(whole.tokens == cached.tokens);
    CHECK(whole.tokens.size() == requests.size());
  }
}
