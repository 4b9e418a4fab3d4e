#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "generate.hpp"
#include "printing.hpp"

namespace gpt2_trainer {
namespace {

/// What the model says to a line.
class answer final : public text_receiver {
 public:
  answer(const text_codec& codec, const std::string& stop) : text_(codec, stop) {}

  bool goes_on() override { return std::ferror(stdout) == 0; }
  bool on_token(std::size_t, std::int32_t token) override {
    print_text(text_.add(token));
    return !text_.is_stopped();
  }
  void on_end(std::size_t, text_end) override { print_text(text_.finish()); }

  const growing_text& text() const { return text_; }

 private:
  growing_text text_;
};

void append(token_text& to, const token_text& more) {
  to.insert(to.end(), more.begin(), more.end());
}

bool next_line(std::string& line) {
  if (::isatty(STDIN_FILENO) == 1) std::fputs("> ", stderr);
  return static_cast<bool>(std::getline(std::cin, line));
}

}  // namespace

void converse(const generate_options& o, const loaded_model& model, const std::string& beginning) {
  token_text text = model.codec.encode(beginning);
  const generation_options options = generation_of(o, model.codec);
  if (o.echo) print_text(beginning);
  for (std::string line; next_line(line);) {
    append(text, model.codec.encode(line + "\n"));
    answer said(model.codec, o.stop);
    if (!generate(*model.texts, {request_of(o, model.codec, text, 0)}, options, said)) return;
    append(text, said.text().tokens());
    // What the model sees is what the terminal shows: the next line begins a line.
    const std::string& shown = said.text().text();
    if (!shown.empty() && shown.back() == '\n') continue;
    print_text("\n");
    if (!said.text().is_stopped() || o.stop.back() != '\n') append(text, model.codec.encode("\n"));
  }
  end_line_of_terminal();
}

}  // namespace gpt2_trainer
