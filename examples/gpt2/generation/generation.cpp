#include "gpt2/generation/generation.hpp"

#include <algorithm>

namespace gpt2_trainer {
namespace {

/// A text that the model goes on with, at one place of its batch.
struct running_text {
  std::size_t request;
  token_text tokens;
  random_sequence random;
  std::int64_t wanted;  ///< tokens that are still to come
};

/// Adds the next token; says so if the text ends by it.
std::optional<text_end> go_on(running_text& text, std::vector<float> logits,
                              const generation_options& options, text_receiver& receiver) {
  if (options.vocabulary) {
    logits.resize(std::min(logits.size(), static_cast<std::size_t>(*options.vocabulary)));
  }
  const std::int32_t token = sample_token(logits, text.tokens, options.sampling, text.random);
  if (token == options.end_of_text) return text_end::end_of_text;
  text.tokens.push_back(token);
  --text.wanted;
  if (!receiver.on_token(text.request, token)) return text_end::stop;
  if (text.wanted == 0) return text_end::length;
  return std::nullopt;
}

}  // namespace

bool generate(text_model& model, const std::vector<generation_request>& requests,
              const generation_options& options, text_receiver& receiver) {
  std::vector<std::optional<running_text>> places(
      std::min(static_cast<std::size_t>(model.batch()), requests.size()));
  std::size_t next = 0;
  std::size_t ended = 0;
  while (ended < requests.size()) {
    std::vector<const token_text*> texts;
    for (std::optional<running_text>& place : places) {
      if (!place && next < requests.size()) {
        const generation_request& request = requests[next];
        place = running_text{next++, request.prompt, request.random, options.length};
      }
      texts.push_back(place ? &place->tokens : nullptr);
    }
    if (!receiver.goes_on()) return false;
    std::vector<std::vector<float>> logits = model.logits(texts);
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (!places[i]) continue;
      const auto end = go_on(*places[i], std::move(logits[i]), options, receiver);
      if (!end) continue;
      receiver.on_end(places[i]->request, *end);
      places[i].reset();
      ++ended;
    }
  }
  return true;
}

}  // namespace gpt2_trainer
