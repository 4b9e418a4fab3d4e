#include "gpt2/generation/generation.hpp"

#include <map>
#include <utility>

#include "../support/catch.hpp"

using namespace gpt2_trainer;

namespace {

/// A model of 8 tokens that makes logits of all that it sees, and notes what that is.
class noting_model final : public text_model {
 public:
  explicit noting_model(std::int64_t batch) : batch_(batch) {}

  std::int64_t context() const override { return 4; }
  std::int64_t batch() const override { return batch_; }
  std::vector<std::vector<float>> logits(const std::vector<const token_text*>& texts) override {
    std::vector<std::vector<float>> result(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (texts[i] == nullptr) continue;
      const auto length = static_cast<std::int64_t>(texts[i]->size());
      seen.emplace_back(texts[i]->begin() + first_seen(length, context()), texts[i]->end());
      random_sequence random(3);
      for (const std::int32_t token : seen.back()) random = random_sequence(random.next(), token);
      for (int j = 0; j < 8; ++j) result[i].push_back(static_cast<float>(random.uniform()));
    }
    return result;
  }

  std::vector<token_text> seen;

 private:
  std::int64_t batch_;
};

struct collected final : text_receiver {
  bool goes_on() override { return steps-- > 0; }
  bool on_token(std::size_t text, std::int32_t token) override {
    tokens[text].push_back(token);
    return token != stop_at;
  }
  void on_end(std::size_t text, text_end end) override { ends[text] = end; }

  int steps = 1000;
  std::int32_t stop_at = -1;
  std::map<std::size_t, token_text> tokens;
  std::map<std::size_t, text_end> ends;
};

collected generated(const std::vector<generation_request>& requests,
                    const generation_options& options, std::int64_t batch, collected to = {}) {
  noting_model model(batch);
  CHECK(generate(model, requests, options, to));
  return to;
}

}  // namespace

TEST_CASE("generation: a text is seen from a multiple of half of the context", "[generation]") {
  for (const std::int64_t context : {1, 2, 3, 7, 8}) {
    const std::int64_t step = std::max<std::int64_t>(context / 2, 1);
    for (std::int64_t length = 1; length < 40; ++length) {
      const std::int64_t first = first_seen(length, context);
      INFO("context " << context << ", length " << length << ", first " << first);
      CHECK(first % step == 0);
      CHECK(length - first <= context);
      CHECK((first == 0 || length - (first - step) > context));  // no later than it must be
    }
  }
  noting_model model(1);
  collected to;
  CHECK(generate(model, {{{1, 2, 3}, random_sequence(1)}}, {{0}, 4}, to));
  REQUIRE(model.seen.size() == 4);
  const token_text& made = to.tokens[0];
  CHECK(model.seen[0] == token_text{1, 2, 3});
  CHECK(model.seen[1] == token_text{1, 2, 3, made[0]});
  CHECK(model.seen[2] == token_text{3, made[0], made[1]});
  CHECK(model.seen[3] == token_text{3, made[0], made[1], made[2]});
}

TEST_CASE("generation: texts are the same however many there are at a time", "[generation]") {
  std::vector<generation_request> requests;
  for (int i = 0; i < 9; ++i)
    requests.push_back({token_text(1 + i % 4, i % 8), random_sequence(i)});
  const generation_options options{{1}, 12, 5};
  const collected one = generated(requests, options, 1);
  CHECK(one.ends.size() == requests.size());
  for (const std::int64_t batch : {2, 4, 20}) {
    const collected many = generated(requests, options, batch);
    CHECK(many.tokens == one.tokens);
    CHECK(many.ends == one.ends);
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    CHECK(generated({requests[i]}, options, 1).tokens[0] == one.tokens.at(i));
  }
}

TEST_CASE("generation: a text ends by length, by its model or by its receiver", "[generation]") {
  const std::vector<generation_request> requests{{{1}, random_sequence(1)}};
  collected all = generated(requests, {{1}, 50}, 1);
  CHECK(all.tokens[0].size() == 50);
  CHECK(all.ends[0] == text_end::length);
  const auto before = [&](std::int32_t token) {
    const token_text& tokens = all.tokens[0];
    return token_text(tokens.begin(), std::find(tokens.begin(), tokens.end(), token));
  };
  collected ended = generated(requests, {{1}, 50, 3}, 1);
  CHECK(ended.tokens[0] == before(3));
  CHECK(ended.ends[0] == text_end::end_of_text);

  collected stopped;
  stopped.stop_at = 3;
  stopped = generated(requests, {{1}, 50}, 1, stopped);
  token_text wanted = before(3);
  wanted.push_back(3);
  CHECK(stopped.tokens[0] == wanted);
  CHECK(stopped.ends[0] == text_end::stop);

  noting_model model(1);
  collected given_up;
  given_up.steps = 7;
  CHECK_FALSE(generate(model, requests, {{1}, 50}, given_up));
  CHECK(given_up.tokens[0].size() == 7);
  CHECK(given_up.ends.empty());
}

TEST_CASE("generation: tokens that are not wanted are not drawn", "[generation]") {
  collected few = generated({{{1}, random_sequence(1)}}, {{1}, 200, std::nullopt, 3}, 1);
  CHECK(*std::max_element(few.tokens[0].begin(), few.tokens[0].end()) == 2);
}

TEST_CASE("generation: a text is a function of the seed", "[generation]") {
  const auto draw = [](int seed) {
    return generated({{{1}, random_sequence(seed)}}, {{1}, 40}, 1).tokens[0];
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
}
