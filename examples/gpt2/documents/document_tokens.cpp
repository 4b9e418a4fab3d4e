#include "gpt2/documents/document_tokens.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "gpt2/data/text.hpp"
#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

void append(std::string_view text, bool begins_document, const tokenizer& words, block_tokens& to) {
  if (begins_document) to.documents.push_back(to.tokens.size());
  words.encode(text, to.tokens);
  to.text_bytes += static_cast<std::int64_t>(text.size());
}

void require_text(std::string_view text, std::int64_t offset, const document_file& file) {
  const std::size_t valid = valid_text_prefix(text);
  if (valid == text.size()) return;
  throw input_error(file.path.string() + ": UTF-8 text is wanted, but byte " +
                    std::to_string(offset + static_cast<std::int64_t>(valid)) +
                    " is none (--invalid-utf8 keep takes bytes as they are)");
}

block_tokens tokens_of_text(const text_block& block, const document_file& file,
                            const document_rules& rules, const tokenizer& words) {
  block_tokens result;
  for (const text_stretch& stretch : block.stretches) {
    const auto text = std::string_view(block.bytes).substr(stretch.begin, stretch.size);
    if (rules.invalid == invalid_text::refuse) require_text(text, stretch.offset, file);
    append(text, stretch.begins_document, words, result);
  }
  return result;
}

/// Looks for a string in an object, without keeping anything else.
class field_reader final : public json::json_sax_t {
 public:
  explicit field_reader(const std::string& field) : field_(field) {}

  /// Why the line has no such string; empty if it has one.
  std::string fault() const {
    if (!fault_.empty()) return fault_;
    return found_ ? "" : "got an object without it";
  }
  const std::string& text() const { return text_; }

  bool null() override { return value("null"); }
  bool boolean(bool) override { return value("a truth value"); }
  bool number_integer(number_integer_t) override { return value("a number"); }
  bool number_unsigned(number_unsigned_t) override { return value("a number"); }
  bool number_float(number_float_t, const string_t&) override { return value("a number"); }
  bool binary(binary_t&) override { return value("bytes"); }
  bool string(string_t& text) override {
    if (!is_wanted_) return value("a string");
    is_wanted_ = false;
    if (found_) return fail("got it twice");
    found_ = true;
    text_ = std::move(text);
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_ > 0 && !value("an object")) return false;
    ++depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (!value("an array")) return false;
    ++depth_;
    return true;
  }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t& name) override {
    is_wanted_ = depth_ == 1 && name == field_;
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const json::exception&) override {
    return fail("byte " + std::to_string(at) + " of the line cannot be part of one");
  }

 private:
  /// Any value but the string that is looked for.
  bool value(const char* kind) {
    if (depth_ == 0) return fail(std::string("got ") + kind);
    if (is_wanted_) return fail(std::string("got ") + kind + " there");
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
  bool fail(std::string fault) {
    if (fault_.empty()) fault_ = std::move(fault);
    return false;
  }

  const std::string& field_;
  std::int64_t depth_ = 0;
  bool is_wanted_ = false;  ///< the next value
  bool found_ = false;
  std::string text_;
  std::string fault_;
};

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

block_tokens tokens_of_lines(const text_block& block, const document_file& file,
                             const document_rules& rules, const tokenizer& words) {
  block_tokens result;
  std::int64_t number = block.first_line;
  for (std::string_view rest = block.bytes; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (is_blank(line)) continue;
    field_reader reader(rules.json_field);
    json::sax_parse(line.begin(), line.end(), &reader);
    const std::string fault = reader.fault();
    if (fault.empty()) {
      if (!reader.text().empty()) append(reader.text(), true, words, result);
    } else if (rules.bad == bad_line::skip) {
      ++result.skipped_lines;
    } else {
      throw input_error(file.path.string() + ": line " + std::to_string(number) +
                        ": a JSON object with a string \"" + rules.json_field +
                        "\" is wanted, but " + fault);
    }
  }
  return result;
}

}  // namespace

block_tokens tokens_of(const text_block& block, const document_file& file,
                       const document_rules& rules, const tokenizer& words) {
  return is_json_lines(file.path, rules.form) ? tokens_of_lines(block, file, rules, words)
                                              : tokens_of_text(block, file, rules, words);
}

}  // namespace gpt2_trainer
