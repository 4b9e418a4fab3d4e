#include "loading.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "gpt2/hugging_face/stored_model.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/machine/machine.hpp"
#include "gpt2/model/gpt2_decoder.hpp"
#include "gpt2/model/whole_text_model.hpp"
#include "gpt2/run/numbers.hpp"

namespace gpt2_trainer {
namespace {

void say(const std::vector<std::string>& notes) {
  for (const std::string& each : notes) note(each);
}

std::optional<std::int32_t> end_of_text(const generate_options& o, const text_codec& codec) {
  if (o.end_of_text == "ignore") return std::nullopt;
  if (o.end_of_text.empty()) return codec.end_of_text();
  return static_cast<std::int32_t>(parse_number<std::int64_t>(o.end_of_text, {0}));
}

}  // namespace

loaded_model load(const generate_options& o, std::int64_t texts) {
  const stored_model model = open_model(o.model);
  say(model.notes);
  const std::int64_t context = model.config.max_sequence;
  loaded_model result{text_codec(o.tokenizer, model.tokenizer, model.config.vocabulary), nullptr,
                      nullptr, nullptr};
  say(result.codec.notes());
  std::string why;
  result.machine = choose_machine(o.backend, o.precision, why);
  if (result.machine->decoding() != nullptr) {
    auto decoder = std::make_unique<gpt2_decoder>(model.config, *result.machine,
                                                  std::min(o.batch, texts), context);
    decoder->set_parameters(model.parameters());
    result.texts = std::move(decoder);
    return result;
  }
  result.network = std::make_unique<gpt2<float>>(model.config, *result.machine, 1, context);
  result.network->set_parameters(model.parameters());
  result.texts = std::make_unique<whole_text_model>(*result.network, context);
  return result;
}

generation_options generation_of(const generate_options& o, const text_codec& codec) {
  return {{o.temperature, o.top_k, o.top_p, o.repetition_penalty}, o.length, end_of_text(o, codec)};
}

generation_request request_of(const generate_options& o, const text_codec& codec, token_text text,
                              std::int64_t sample) {
  if (text.empty() && codec.end_of_text()) text.push_back(*codec.end_of_text());
  if (text.empty()) throw input_error("a prompt must have at least one token, got none");
  std::uint64_t of_text = text.size();
  for (const std::int32_t token : text) {
    of_text = mixed(of_text ^ static_cast<std::uint64_t>(token));
  }
  return {std::move(text), random_sequence(o.seed, sample, of_text)};
}

void note(const std::string& text) {
  std::fprintf(stderr, "gpt2_generate: %s\n", text.c_str());
}

}  // namespace gpt2_trainer
