#include "gpt2_trainer/report/sample.hpp"

#include <vector>

#include "gpt2/data/text.hpp"
#include "gpt2/generation/generation.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/model/whole_text_model.hpp"

namespace gpt2_trainer {
namespace {

constexpr std::int32_t gpt2_end_of_text = 50256;

/// What samples continue: text, or the token that ends documents in GPT-2's vocabulary.
std::vector<std::int32_t> prompt_tokens(const gpt2_config& config, const std::string& prompt) {
  if (config.vocabulary != byte_vocabulary) {
    return {config.vocabulary > gpt2_end_of_text ? gpt2_end_of_text : 0};
  }
  std::vector<std::int32_t> tokens;
  for (const char byte : prompt) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

std::string shown(const gpt2_config& config, const std::vector<std::int32_t>& tokens) {
  const bool bytes = config.vocabulary == byte_vocabulary;
  std::string text;
  for (const std::int32_t token : tokens) {
    if (bytes) {
      text += static_cast<char>(token);
    } else {
      text += std::to_string(token) + ' ';
    }
  }
  return bytes ? printable(text) : text;
}

/// Collects a text's tokens until the run is to stop.
class sample_receiver final : public text_receiver {
 public:
  explicit sample_receiver(const stop_request& stop) : stop_(stop) {}

  const std::vector<std::int32_t>& tokens() const { return tokens_; }

  bool goes_on() override { return !stop_.is_made(); }
  bool on_token(std::size_t, std::int32_t token) override {
    tokens_.push_back(token);
    return true;
  }
  void on_end(std::size_t, text_end) override {}

 private:
  const stop_request& stop_;
  std::vector<std::int32_t> tokens_;
};

}  // namespace

std::optional<std::string> sample_text(gpt2<float>& model, const run_options& o,
                                       std::int64_t sequence, std::int64_t step,
                                       const stop_request& stop) {
  whole_text_model texts(model, sequence);
  generation_options options;
  options.sampling.temperature = o.temperature;
  options.sampling.top_k = o.top_k;
  options.length = o.sample_length;
  const generation_request request{prompt_tokens(model.config(), o.prompt),
                                   random_sequence(o.seed, step, o.sample_length)};
  sample_receiver receiver(stop);
  if (!generate(texts, {request}, options, receiver)) return std::nullopt;
  return shown(model.config(), receiver.tokens());
}

void require_text_model(const gpt2_config& config, const std::string& prompt) {
  if (config.vocabulary == byte_vocabulary || prompt.empty()) return;
  throw input_error("--prompt must be for a model whose 256 tokens are bytes, got one of " +
                    std::to_string(config.vocabulary) + " tokens: " + no_tokenizer);
}

}  // namespace gpt2_trainer
