#include "gpt2/evaluation/text_tokens.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "gpt2/data/text.hpp"

namespace gpt2_trainer {
namespace {

/// Shards in memory, one behind the other.
class documents : public token_source {
 public:
  documents(std::vector<std::int32_t> tokens, std::vector<std::int64_t> sizes, data_record files)
      : token_source(std::move(sizes), std::move(files)), tokens_(std::move(tokens)) {
    std::int64_t begin = 0;
    for (const std::int64_t size : shards()) {
      begins_.push_back(begin);
      begin += size;
    }
  }

  std::string name(std::size_t shard) const override { return files()[shard].name; }

  void read(std::int32_t* to, std::size_t shard, std::int64_t offset,
            std::int64_t count) const override {
    std::copy_n(tokens_.begin() + begins_[shard] + offset, count, to);
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::vector<std::int64_t> begins_;
};

}  // namespace

std::vector<std::int32_t> text_tokens::encode(std::string_view text) const {
  if (words_) return words_->encode(text);
  std::vector<std::int32_t> tokens;
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

std::string text_tokens::decode(const std::vector<std::int32_t>& tokens) const {
  if (words_) return words_->decode(tokens);
  std::string text;
  for (const std::int32_t token : tokens) text += static_cast<char>(token);
  return text;
}

std::optional<std::int32_t> text_tokens::separator() const {
  return words_ ? words_->words().end_of_text : std::int32_t{document_separator};
}

bytes_of_tokens text_tokens::bytes(std::int64_t vocabulary) const {
  bytes_of_tokens bytes(static_cast<std::size_t>(vocabulary), words_ ? 0 : 1);
  if (!words_) {
    bytes[document_separator] = 0;
    return bytes;
  }
  const std::size_t known = std::min(bytes.size(), static_cast<std::size_t>(words_->size()));
  for (std::size_t i = 0; i < known; ++i) {
    bytes[i] = static_cast<std::int64_t>(words_->bytes_of(static_cast<std::int32_t>(i)).size());
  }
  for (const special_token& special : words_->words().specials) {
    if (special.id < vocabulary) bytes[static_cast<std::size_t>(special.id)] = 0;
  }
  return bytes;
}

std::unique_ptr<token_source> make_documents(const text_corpus& corpus, const text_tokens& text) {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> sizes;
  std::string_view left = corpus.text;
  while (!left.empty()) {
    left.remove_prefix(1);  // the separator before each document
    const std::string_view document = left.substr(0, left.find(document_separator));
    left.remove_prefix(document.size());
    const std::size_t before = tokens.size();
    if (text.separator()) tokens.push_back(*text.separator());
    const std::vector<std::int32_t> more = text.encode(document);
    tokens.insert(tokens.end(), more.begin(), more.end());
    sizes.push_back(static_cast<std::int64_t>(tokens.size() - before));
  }
  return std::make_unique<documents>(std::move(tokens), std::move(sizes), corpus.files);
}

}  // namespace gpt2_trainer
