#include "gpt2_trainer/report/sample.hpp"

#include <vector>

#include "gpt2/data/text.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/model/sampling.hpp"

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

}  // namespace

std::optional<std::string> sample_text(gpt2<float>& model, const run_options& o,
                                       std::int64_t sequence, std::int64_t step,
                                       const stop_request& stop) {
  const auto logits = [&](const std::vector<std::int32_t>& tokens) {
    if (stop.is_made()) return std::vector<float>{};
    const auto count = static_cast<std::int64_t>(tokens.size());
    return model.logits_at(tokens.data(), count, count - 1);
  };
  const std::vector<std::int32_t> tokens =
      generate(logits, prompt_tokens(model.config(), o.prompt), o.sample_length, sequence,
               {o.temperature, o.top_k}, random_sequence(o.seed, step, o.sample_length));
  if (static_cast<std::int64_t>(tokens.size()) < o.sample_length) return std::nullopt;
  return shown(model.config(), tokens);
}

void require_text_model(const gpt2_config& config, const std::string& prompt) {
  if (config.vocabulary == byte_vocabulary || prompt.empty()) return;
  throw input_error("--prompt must be for a model whose 256 tokens are bytes, got one of " +
                    std::to_string(config.vocabulary) + " tokens: " + no_tokenizer);
}

}  // namespace gpt2_trainer
