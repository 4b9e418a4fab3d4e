#include "generate.hpp"

#include "printing.hpp"

namespace gpt2_trainer {

void print_texts(const generate_options& o, const loaded_model& model,
                 const std::vector<std::string>& prompts) {
  std::vector<generation_request> requests;
  std::vector<std::int64_t> counts;
  for (const std::string& prompt : prompts) {
    const token_text text = model.codec.encode(prompt);
    for (std::int64_t sample = 0; sample < o.samples; ++sample) {
      requests.push_back(request_of(o, model.codec, text, sample));
    }
    counts.push_back(static_cast<std::int64_t>(requests.back().prompt.size()));
    const std::int64_t unseen = first_seen(counts.back(), model.texts->context());
    if (unseen > 0) {
      note("prompt " + std::to_string(counts.size()) + " has " + std::to_string(counts.back()) +
           " tokens, of which the model sees the last " + std::to_string(counts.back() - unseen));
    }
  }
  text_printer printer(model.codec, o, prompts, counts);
  generate(*model.texts, requests, generation_of(o, model.codec), printer);
  if (o.timing) printer.clock().report();
}

}  // namespace gpt2_trainer
