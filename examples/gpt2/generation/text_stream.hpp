/// @file
/// Text that arrives in pieces and is passed on as soon as it is certain.
#pragma once

#include <string>
#include <string_view>

namespace gpt2_trainer {

/// Passes on whole characters only, and nothing from the stop text on. Bytes that are no UTF-8 pass
/// as they are.
class text_stream {
 public:
  /// An empty stop text is none.
  explicit text_stream(std::string stop = {}) : stop_(std::move(stop)) {}

  /// Returns what is certain now. After the stop text nothing is.
  std::string add(std::string_view bytes);
  /// What is left when no more comes.
  std::string finish();
  /// Whether the stop text has come.
  bool is_stopped() const { return is_stopped_; }

 private:
  std::string stop_;
  std::string held_;
  bool is_stopped_ = false;
};

}  // namespace gpt2_trainer
