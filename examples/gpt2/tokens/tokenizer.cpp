#include "gpt2/tokens/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "gpt2/input_error.hpp"
#include "gpt2/tokens/heap_merge.hpp"
#include "gpt2/tokens/linear_merge.hpp"
#include "gpt2/tokens/merge_rules.hpp"
#include "gpt2/tokens/splitter.hpp"

namespace gpt2_trainer {

namespace {

[[noreturn]] void refuse_id(std::int32_t id, std::size_t count) {
  throw input_error("there is no token " + std::to_string(id) + ", only " + std::to_string(count) +
                    " from 0 on");
}

/// The same vocabulary, if its special tokens are tokens.
vocabulary checked(vocabulary words) {
  const auto is_token = [&](const special_token& special) {
    return special.id >= 0 && static_cast<std::size_t>(special.id) < words.tokens.size() &&
           !special.text.empty() &&
           words.tokens[static_cast<std::size_t>(special.id)] == special.text;
  };
  for (const special_token& special : words.specials) {
    if (!is_token(special)) {
      throw input_error("vocabulary: the special token \"" + special.text + "\" has id " +
                        std::to_string(special.id) + ", which is not that token of the " +
                        std::to_string(words.tokens.size()));
    }
  }
  const auto is_end = [&](const special_token& special) { return special.id == words.end_of_text; };
  if (words.end_of_text && std::none_of(words.specials.begin(), words.specials.end(), is_end)) {
    throw input_error("vocabulary: the end of text " + std::to_string(*words.end_of_text) +
                      " is not a special token");
  }
  return words;
}

/// Special tokens in a text: the first one, of those at one place the longest.
class special_finder {
 public:
  explicit special_finder(std::vector<special_token> specials) : specials_(std::move(specials)) {
    const auto longer = [](const special_token& a, const special_token& b) {
      return a.text.size() > b.text.size();
    };
    std::stable_sort(specials_.begin(), specials_.end(), longer);
    for (const special_token& special : specials_) {
      begins_[static_cast<unsigned char>(special.text.front())] = true;
    }
  }

  /// The special token that stands at `at` of the text, or null.
  const special_token* at(std::string_view text, std::size_t at) const {
    if (!begins_[static_cast<unsigned char>(text[at])]) return nullptr;
    for (const special_token& special : specials_) {
      if (text.compare(at, special.text.size(), special.text) == 0) return &special;
    }
    return nullptr;
  }

 private:
  std::vector<special_token> specials_;
  std::array<bool, 256> begins_{};
};

/// The bytes of all tokens one after another.
class token_bytes {
 public:
  explicit token_bytes(const std::vector<std::string>& tokens) {
    ends_.reserve(tokens.size() + 1);
    ends_.push_back(0);
    for (const std::string& token : tokens) {
      bytes_ += token;
      ends_.push_back(bytes_.size());
    }
    bytes_.append(at_once, '\0');
  }

  std::string_view of(std::int32_t token) const {
    const std::size_t id = checked(token);
    return {bytes_.data() + ends_[id], ends_[id + 1] - ends_[id]};
  }

  std::string decode(const std::int32_t* tokens, std::size_t count) const {
    std::size_t size = 0;
    for (std::size_t i = 0; i < count; ++i) size += of(tokens[i]).size();
    std::string text(size, '\0');
    char* to = text.data();
    char* const end = to + size;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view bytes = of(tokens[i]);
      // Most tokens are short, and copying a fixed number of bytes is one instruction.
      if (bytes.size() <= at_once && end - to >= static_cast<std::ptrdiff_t>(at_once)) {
        std::memcpy(to, bytes.data(), at_once);
      } else {
        std::memcpy(to, bytes.data(), bytes.size());
      }
      to += bytes.size();
    }
    return text;
  }

 private:
  static constexpr std::size_t at_once = 16;

  std::size_t checked(std::int32_t token) const {
    const std::size_t count = ends_.size() - 1;
    if (token < 0 || static_cast<std::size_t>(token) >= count) refuse_id(token, count);
    return static_cast<std::size_t>(token);
  }

  std::string bytes_;
  std::vector<std::size_t> ends_;
};

}  // namespace

struct tokenizer::tables {
  explicit tables(vocabulary given)
      : words(gpt2_trainer::checked(std::move(given))),
        bytes(words.tokens),
        rules(words),
        linear(words, rules),
        specials(words.specials) {}

  void encode(std::string_view text, std::vector<std::int32_t>& to) const {
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at != end) {
      const char* const next = end_of_piece(at, end);
      const std::string_view piece(at, static_cast<std::size_t>(next - at));
      if (linear.applies()) {
        linear.encode(rules, piece, to);
      } else {
        merge_by_heap(rules, piece, to);
      }
      at = next;
    }
  }

  vocabulary words;
  token_bytes bytes;
  merge_rules rules;
  linear_merge linear;
  special_finder specials;
};

tokenizer::tokenizer(vocabulary words) : tables_(std::make_unique<tables>(std::move(words))) {}
tokenizer::~tokenizer() = default;
tokenizer::tokenizer(tokenizer&&) noexcept = default;
tokenizer& tokenizer::operator=(tokenizer&&) noexcept = default;

const vocabulary& tokenizer::words() const {
  return tables_->words;
}

std::int64_t tokenizer::size() const {
  return static_cast<std::int64_t>(tables_->words.tokens.size());
}

bool tokenizer::can_encode() const {
  return !tables_->words.merges.empty();
}

void tokenizer::encode(std::string_view text, std::vector<std::int32_t>& to) const {
  if (!can_encode()) {
    throw input_error("the vocabulary has no merges, so its tokens can only be decoded");
  }
  tables_->encode(text, to);
}

std::vector<std::int32_t> tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  encode(text, tokens);
  return tokens;
}

std::vector<std::int32_t> tokenizer::encode_with_specials(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  std::size_t begin = 0;  // of the text after the last special token
  for (std::size_t at = 0; at < text.size();) {
    if (const special_token* special = tables_->specials.at(text, at)) {
      encode(text.substr(begin, at - begin), tokens);
      tokens.push_back(special->id);
      at += special->text.size();
      begin = at;
    } else {
      ++at;
    }
  }
  encode(text.substr(begin), tokens);
  return tokens;
}

std::string_view tokenizer::bytes_of(std::int32_t token) const {
  return tables_->bytes.of(token);
}

std::string tokenizer::decode(const std::int32_t* tokens, std::size_t count) const {
  return tables_->bytes.decode(tokens, count);
}

}  // namespace gpt2_trainer
