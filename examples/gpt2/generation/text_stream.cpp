#include "gpt2/generation/text_stream.hpp"

#include <algorithm>
#include <utility>

#include "gpt2/data/text.hpp"

namespace gpt2_trainer {
namespace {

/// The bytes at the end of the text with which the stop text may begin.
std::size_t begun(std::string_view text, std::string_view stop) {
  if (stop.empty()) return 0;
  std::size_t bytes = std::min(text.size(), stop.size() - 1);
  while (text.substr(text.size() - bytes) != stop.substr(0, bytes)) --bytes;
  return bytes;
}

}  // namespace

std::string text_stream::add(std::string_view bytes) {
  if (is_stopped_) return {};
  held_ += bytes;
  const std::size_t stop = stop_.empty() ? std::string::npos : held_.find(stop_);
  if (stop != std::string::npos) {
    is_stopped_ = true;
    held_.resize(stop);
    return finish();
  }
  std::string certain = held_.substr(0, held_.size() - begun(held_, stop_));
  certain.resize(certain.size() - unfinished_character(certain));
  held_.erase(0, certain.size());
  return certain;
}

std::string text_stream::finish() {
  return std::exchange(held_, {});
}

}  // namespace gpt2_trainer
