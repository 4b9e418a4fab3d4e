// The files that choices come in: llm.c's tokens, and HellaSwag's own lines of JSON.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "gpt2/evaluation/choices.hpp"
#include "gpt2/files/file.hpp"
#include "gpt2/files/file_header.hpp"
#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

/// Each completion is joined to its context by a space, as in llm.c.
constexpr char joint = ' ';
constexpr std::int64_t fewest_completions = 2;

// ---- llm.c's ----

constexpr std::int64_t begin_of_example = 65535;
constexpr std::int64_t most_number = 65534;

/// Reads an example's numbers one after another.
class choice_reader {
 public:
  choice_reader(const input_file& input, std::vector<std::uint16_t> numbers,
                std::int64_t vocabulary)
      : input_(input), numbers_(std::move(numbers)), vocabulary_(vocabulary) {}

  bool is_at_end() const { return at_ == numbers_.size(); }
  std::size_t at() const { return at_; }

  std::int64_t next(const std::string& what) {
    if (is_at_end()) input_.fail(what + " is wanted, but the file ends there");
    return numbers_[at_++];
  }
  std::int64_t next(const std::string& what, std::int64_t least, std::int64_t most) {
    const std::int64_t number = next(what);
    input_.require_between(what, least, most, number);
    return number;
  }
  std::vector<std::int32_t> next_tokens(const std::string& whose) {
    std::vector<std::int32_t> tokens;
    const std::int64_t count = next(whose + ": length", 1, most_number);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string what = whose + ": token " + std::to_string(i);
      tokens.push_back(static_cast<std::int32_t>(next(what, 0, vocabulary_ - 1)));
    }
    return tokens;
  }

 private:
  const input_file& input_;
  std::vector<std::uint16_t> numbers_;
  std::int64_t vocabulary_;
  std::size_t at_ = 0;
};

std::optional<std::int64_t> bytes_of(const std::vector<std::int32_t>& tokens,
                                     const std::optional<text_tokens>& text) {
  if (!text) return std::nullopt;
  const std::string decoded = text->decode(tokens);
  return static_cast<std::int64_t>(decoded.size()) - (decoded.front() == joint ? 1 : 0);
}

choice_example next_example(choice_reader& from, const input_file& input, std::int64_t index,
                            const std::optional<text_tokens>& text, std::int64_t& bytes) {
  const std::string name = "example " + std::to_string(index);
  const std::size_t begin = from.at();
  from.next(name + ": its first number", begin_of_example, begin_of_example);
  bytes = from.next(name + ": size in bytes");
  from.next(name + ": index", index, index);
  choice_example example;
  example.label = from.next(name + ": label");
  const std::int64_t completions =
      from.next(name + ": number of completions", fewest_completions, most_number);
  input.require_between(name + ": label", 0, completions - 1, example.label);
  example.context = from.next_tokens(name + ": context");
  for (std::int64_t i = 0; i < completions; ++i) {
    std::vector<std::int32_t> tokens = from.next_tokens(name + ": completion " + std::to_string(i));
    const std::optional<std::int64_t> length = bytes_of(tokens, text);
    example.completions.push_back({std::move(tokens), length});
  }
  const auto size = static_cast<std::int64_t>((from.at() - begin) * sizeof(std::uint16_t));
  input.require_equal(name + ": size in bytes", size, bytes);
  return example;
}

std::vector<choice_example> read_tokens(input_file& input, std::int64_t vocabulary,
                                        const std::optional<text_tokens>& text) {
  const file_header header = read_header(input, choices_kind);
  const std::int64_t count = header[2];
  const std::int64_t bytes = input.size() - header_bytes;
  input.require_between("number of examples", 1, 1 << 16, count);
  input.require(bytes % 2 == 0, "bytes after the header", "of numbers of 16 bits",
                std::to_string(bytes));
  choice_reader from(input, input.next<std::uint16_t>(bytes / 2), vocabulary);
  std::vector<choice_example> examples;
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t size = 0;
    examples.push_back(next_example(from, input, i, text, size));
    longest = std::max(longest, size);
  }
  if (!from.is_at_end()) {
    input.fail("the file must end after the " + std::to_string(count) +
               " examples of its header, got more");
  }
  input.require_equal("bytes of the longest example in the header", longest, header[3]);
  return examples;
}

// ---- HellaSwag's ----

/// The value of an example, or an input_error that says what was seen.
class json_example {
 public:
  json_example(const input_file& input, std::int64_t line, const std::string& text)
      : input_(input), name_("line " + std::to_string(line)) {
    value_ = json::parse(text, nullptr, false);
    if (!value_.is_object())
      refuse("a JSON object", value_.is_discarded() ? "none" : "another value");
  }

  /// Where `ctx_b` is not empty, it continues `ctx_a`; `ctx` has both.
  std::string context() const {
    const bool is_whole = value_.contains("ctx");
    const std::string a = text_in(is_whole ? "ctx" : "ctx_a");
    const std::string b = is_whole || !value_.contains("ctx_b") ? "" : text_in("ctx_b");
    if (a.empty()) refuse("a context", "\"\"");
    return b.empty() ? a : a + joint + b;
  }

  std::vector<std::string> endings() const {
    const json endings = value_.value("endings", json());
    std::vector<std::string> texts;
    for (const json& each : endings) {
      if (each.is_string()) texts.push_back(each.get<std::string>());
    }
    if (!endings.is_array() || texts.size() != endings.size() ||
        static_cast<std::int64_t>(texts.size()) < fewest_completions) {
      refuse("\"endings\" of at least 2 texts", shown(endings));
    }
    return texts;
  }

  /// A number, or its text, as some who pass the data on write it.
  std::int64_t label(std::size_t endings) const {
    const json label = value_.value("label", json());
    for (std::size_t i = 0; i < endings; ++i) {
      if (label == i || label == std::to_string(i)) return static_cast<std::int64_t>(i);
    }
    refuse("a \"label\" of 0 to " + std::to_string(endings - 1), shown(label));
  }

  [[noreturn]] void refuse(const std::string& wanted, const std::string& seen) const {
    input_.fail(name_ + " must have " + wanted + ", got " + seen);
  }

 private:
  std::string text_in(const char* key) const {
    const json text = value_.value(key, json());
    if (!text.is_string()) refuse("text in \"" + std::string(key) + "\"", shown(text));
    return text.get<std::string>();
  }

  static std::string shown(const json& value) {
    constexpr std::size_t enough = 60;
    const std::string text = value.dump(-1, ' ', true);
    return text.size() <= enough ? text : text.substr(0, enough) + "...";
  }

  const input_file& input_;
  std::string name_;
  json value_;
};

std::vector<choice_example> read_lines(const input_file& input, const text_tokens& text) {
  std::istringstream lines(read_file(input.path()));
  std::vector<choice_example> examples;
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const json_example from(input, number, line);
    const std::vector<std::string> endings = from.endings();
    choice_example example{from.label(endings.size()), text.encode(from.context()), {}};
    for (const std::string& ending : endings) {
      example.completions.push_back(
          {text.encode(joint + ending), static_cast<std::int64_t>(ending.size())});
    }
    examples.push_back(std::move(example));
  }
  if (examples.empty()) input.fail("at least one line with an example is wanted, got none");
  return examples;
}

}  // namespace

std::vector<choice_example> read_choices(const std::filesystem::path& path, std::int64_t vocabulary,
                                         const std::optional<text_tokens>& text) {
  input_file input(path);
  if (has_magic(input, choices_kind)) return read_tokens(input, vocabulary, text);
  if (!text) {
    input.fail(std::string(choices_kind.name) +
               " or, with --tokenizer, lines of JSON are wanted, "
               "got neither");
  }
  return read_lines(input, *text);
}

}  // namespace gpt2_trainer
