#include "gpt2/generation/text_codec.hpp"

#include <sstream>

#include "gpt2/data/text.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/run/numbers.hpp"
#include "gpt2/tokens/vocabulary_files.hpp"

namespace gpt2_trainer {
namespace {

std::shared_ptr<const tokenizer> read_tokenizer(const std::filesystem::path& path,
                                                std::int64_t vocabulary) {
  auto words = std::make_shared<const tokenizer>(read_vocabulary(path));
  if (words->size() <= vocabulary) return words;
  throw input_error(path.string() + ": at most the model's " + std::to_string(vocabulary) +
                    " tokens are wanted, got " + std::to_string(words->size()));
}

}  // namespace

text_codec::text_codec(const std::string& name, const std::filesystem::path& beside_model,
                       std::int64_t vocabulary)
    : is_numbers_(name == "numbers"), vocabulary_(vocabulary) {
  if (is_numbers_) return;
  const bool is_named = !name.empty() && name != "bytes";
  if (is_named || (name.empty() && !beside_model.empty())) {
    words_ = read_tokenizer(is_named ? std::filesystem::path(name) : beside_model, vocabulary);
  } else if (vocabulary != byte_vocabulary) {
    throw input_error("--tokenizer must say what the " + std::to_string(vocabulary) +
                      " tokens of this model are, got " + (name.empty() ? "none" : name));
  }
}

std::vector<std::int32_t> text_codec::encode(const std::string& text) const {
  if (words_ != nullptr) return words_->encode(text);
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
  if (words_ != nullptr)
    return token < words_->size() ? std::string(words_->bytes_of(token)) : std::string();
  return is_numbers_ ? std::to_string(token) + ' ' : std::string(1, static_cast<char>(token));
}

std::vector<std::string> text_codec::notes() const {
  return words_ == nullptr ? std::vector<std::string>() : words_->words().notes;
}

std::optional<std::int32_t> text_codec::end_of_text() const {
  if (is_numbers_) return std::nullopt;
  if (words_ != nullptr) return words_->words().end_of_text;
  return std::int32_t{document_separator};
}

}  // namespace gpt2_trainer
