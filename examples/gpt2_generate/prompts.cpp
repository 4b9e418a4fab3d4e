#include "prompts.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "gpt2/files/file.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/run/json_text.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

std::string read_standard_input() {
  std::string text;
  char bytes[1 << 16];
  while (const std::size_t count = std::fread(bytes, 1, sizeof bytes, stdin)) {
    text.append(bytes, count);
  }
  if (std::ferror(stdin)) throw input_error("standard input cannot be read");
  return text;
}

std::string read_all(const std::string& name) {
  return name == "-" ? read_standard_input() : read_file(name);
}

/// Without their ends, \n or \r\n.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string prompt_of_json(const std::string& line) {
  json value = json::parse(line, nullptr, false);
  if (value.is_object() && value.contains("prompt")) value = json(value["prompt"]);
  if (value.is_discarded()) throw input_error("must be JSON, got '" + line.substr(0, 40) + "'");
  return text_of_json(value);
}

std::vector<std::string> prompts_of_json(const std::string& name) {
  std::vector<std::string> prompts = lines_of(read_all(name));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    try {
      prompts[i] = prompt_of_json(prompts[i]);
    } catch (const input_error& error) {
      throw input_error(name + ": line " + std::to_string(i + 1) + " " + error.what());
    }
  }
  return prompts;
}

std::vector<std::string> some(std::vector<std::string> prompts, const std::string& name) {
  if (prompts.empty()) throw input_error(name + ": must hold at least one prompt, got none");
  return prompts;
}

}  // namespace

std::vector<std::string> read_prompts(const generate_options& o) {
  if (!o.prompts.empty()) return some(lines_of(read_all(o.prompts)), o.prompts);
  if (!o.prompts_json.empty()) return some(prompts_of_json(o.prompts_json), o.prompts_json);
  if (!o.prompt_file.empty()) return {read_all(o.prompt_file)};
  return {o.prompt.value_or("")};
}

}  // namespace gpt2_trainer
