#include "printing.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "gpt2/data/text.hpp"
#include "gpt2/run/json_file.hpp"
#include "gpt2/run/json_text.hpp"

namespace gpt2_trainer {
namespace {

constexpr json_schema text_schema{"llmc.gpt2_generate.text", 1};

bool is_terminal() {
  static const bool is = ::isatty(STDOUT_FILENO) == 1;
  return is;
}

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void print_text(std::string_view text) {
  const std::string shown = is_terminal() ? printable(text) : std::string(text);
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  std::fflush(stdout);
}

void end_line_of_terminal() {
  if (is_terminal()) print_text("\n");
}

std::string growing_text::add(std::int32_t token) {
  tokens_.push_back(token);
  std::string more = stream_.add(codec_->text_of(token));
  text_ += more;
  return more;
}

std::string growing_text::finish() {
  std::string more = stream_.finish();
  text_ += more;
  return more;
}

void generation_clock::count(std::int64_t tokens) {
  last_ = clock::now();
  if (tokens_ == 0) first_ = last_;
  tokens_ += tokens;
}

void generation_clock::report() const {
  const double rest = seconds(last_ - first_);
  std::fprintf(stderr, "%lld tokens in %.3f s, the first after %.3f s, then %.1f tokens/s\n",
               static_cast<long long>(tokens_), seconds(last_ - begin_), seconds(first_ - begin_),
               rest > 0 ? static_cast<double>(tokens_ - 1) / rest : 0.0);
}

text_printer::text_printer(const text_codec& codec, const generate_options& options,
                           const std::vector<std::string>& prompts,
                           const std::vector<std::int64_t>& tokens)
    : options_(options), prompts_(prompts), prompt_tokens_(tokens) {
  const std::size_t texts = prompts.size() * static_cast<std::size_t>(options.samples);
  texts_.resize(texts, entry{growing_text(codec, options.stop)});
}

bool text_printer::goes_on() {
  return std::ferror(stdout) == 0;  // else nobody sees what is printed
}

bool text_printer::on_token(std::size_t text, std::int32_t token) {
  clock_.count(1);
  texts_[text].text.add(token);
  print();
  return !texts_[text].text.is_stopped();
}

void text_printer::on_end(std::size_t text, text_end end) {
  texts_[text].text.finish();
  texts_[text].end = end;
  print();
}

/// Prints what is new of the first text that is not over, and of all before it.
void text_printer::print() {
  for (; current_ < texts_.size(); ++current_, printed_.reset()) {
    const entry& now = texts_[current_];
    if (options_.json) {
      if (!now.end) return;
      std::printf("%s\n", json_line(current_).c_str());
      std::fflush(stdout);
      continue;
    }
    if (!printed_) print_heading();
    print_text(std::string_view(now.text.text()).substr(printed_.value_or(0)));
    printed_ = now.text.text().size();
    if (!now.end) return;
    if (texts_.size() > 1) {
      print_text("\n");
    } else {
      end_line_of_terminal();
    }
  }
}

void text_printer::print_heading() {
  const std::size_t samples = static_cast<std::size_t>(options_.samples);
  const std::size_t prompt = current_ / samples;
  if (texts_.size() > 1) {
    std::string heading = "----";
    if (prompts_.size() > 1) heading += " prompt " + std::to_string(prompt + 1);
    if (samples > 1) heading += " sample " + std::to_string(current_ % samples + 1);
    print_text(heading + " ----\n");
  }
  if (options_.echo) print_text(prompts_[prompt]);
}

std::string text_printer::json_line(std::size_t text) const {
  const std::size_t samples = static_cast<std::size_t>(options_.samples);
  const std::size_t prompt = text / samples;
  nlohmann::json line = json_of_schema(text_schema);
  line["prompt_number"] = prompt + 1;
  line["sample"] = text % samples + 1;
  line["prompt_tokens"] = prompt_tokens_[prompt];
  if (options_.echo) line["prompt"] = json_of_text(prompts_[prompt]);
  line["text"] = json_of_text(texts_[text].text.text());
  line["tokens"] = texts_[text].text.tokens();
  line["end"] = to_string(*texts_[text].end);
  return line.dump();
}

}  // namespace gpt2_trainer
