/// @file
/// What is printed of texts while they grow.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpt2/generation/generation.hpp"
#include "gpt2/generation/text_codec.hpp"
#include "gpt2/generation/text_stream.hpp"
#include "options.hpp"

namespace gpt2_trainer {

/// Prints at once. On a terminal what could steer it is replaced; elsewhere the bytes are as they
/// are.
void print_text(std::string_view text);
/// Ends the line where a terminal's cursor stands in it.
void end_line_of_terminal();

/// A text that grows.
class growing_text {
 public:
  growing_text(const text_codec& codec, const std::string& stop) : codec_(&codec), stream_(stop) {}

  /// Returns what can be printed now.
  std::string add(std::int32_t token);
  std::string finish();

  bool is_stopped() const { return stream_.is_stopped(); }
  /// All that could be printed so far.
  const std::string& text() const { return text_; }
  const token_text& tokens() const { return tokens_; }

 private:
  const text_codec* codec_;
  text_stream stream_;
  std::string text_;
  token_text tokens_;
};

/// How long texts took.
class generation_clock {
 public:
  void count(std::int64_t tokens);
  /// Says so on standard error.
  void report() const;

 private:
  using clock = std::chrono::steady_clock;

  clock::time_point begin_ = clock::now();
  clock::time_point first_ = begin_;
  clock::time_point last_ = begin_;
  std::int64_t tokens_ = 0;
};

/// Prints texts in the order of their requests, the first that is not over while it grows.
class text_printer final : public text_receiver {
 public:
  /// `prompts[i]` continues as texts i * samples to (i + 1) * samples - 1.
  text_printer(const text_codec& codec, const generate_options& options,
               const std::vector<std::string>& prompts, const std::vector<std::int64_t>& tokens);

  bool goes_on() override;
  bool on_token(std::size_t text, std::int32_t token) override;
  void on_end(std::size_t text, text_end end) override;

  const generation_clock& clock() const { return clock_; }

 private:
  struct entry {
    growing_text text;
    std::optional<text_end> end = std::nullopt;
  };

  void print();
  void print_heading();
  std::string json_line(std::size_t text) const;

  const generate_options& options_;
  const std::vector<std::string>& prompts_;
  std::vector<std::int64_t> prompt_tokens_;
  std::vector<entry> texts_;
  std::size_t current_ = 0;
  std::optional<std::size_t> printed_ = std::nullopt;  ///< bytes of the current text, if begun
  generation_clock clock_;
};

}  // namespace gpt2_trainer
