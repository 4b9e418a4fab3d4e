#include "gpt2/generation/text_codec.hpp"

#include <sstream>

#include "gpt2/data/text.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/run/numbers.hpp"

namespace gpt2_trainer {

text_codec::text_codec(const std::string& name, std::int64_t vocabulary)
    : is_numbers_(name == "numbers"), vocabulary_(vocabulary) {
  if (is_numbers_ || vocabulary == byte_vocabulary) return;
  throw input_error("--tokenizer must say what the " + std::to_string(vocabulary) +
                    " tokens of this model are, got " + (name.empty() ? "none" : name));
}

std::vector<std::int32_t> text_codec::encode(const std::string& text) const {
  std::vector<std::int32_t> tokens;
  if (!is_numbers_) {
    for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  }
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::int64_t token = parse_number<std::int64_t>(word, {0, vocabulary_ - 1});
    tokens.push_back(static_cast<std::int32_t>(token));
  }
  return tokens;
}

std::string text_codec::text_of(std::int32_t token) const {
  return is_numbers_ ? std::to_string(token) + ' ' : std::string(1, static_cast<char>(token));
}

std::optional<std::int32_t> text_codec::end_of_text() const {
  if (is_numbers_) return std::nullopt;
  return std::int32_t{document_separator};
}

}  // namespace gpt2_trainer
