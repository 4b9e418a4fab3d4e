#include "gpt2/run/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "gpt2/run/report.hpp"

namespace gpt2_trainer {
namespace {

struct unit {
  double bytes;
  const char* name;
};

unit unit_of(std::int64_t bytes) {
  if (bytes >= 1'000'000'000) return {1e9, "GB"};
  if (bytes >= 1'000'000) return {1e6, "MB"};
  return {1e3, "kB"};
}

}  // namespace

std::string progress_text(std::int64_t done, std::int64_t bytes, double seconds, int bar_width) {
  const unit shown = unit_of(bytes);
  const double share =
      bytes > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(bytes)) : 1;
  std::string bar;
  if (bar_width > 0) {
    const auto filled = static_cast<std::size_t>(share * bar_width);
    bar = " [" + std::string(filled, '=') +
          std::string(static_cast<std::size_t>(bar_width) - filled, ' ') + "]";
  }
  char text[96];
  std::snprintf(text, sizeof text, "  %.1f of %.1f %s  %.1f MB/s",
                static_cast<double>(done) / shown.bytes, static_cast<double>(bytes) / shown.bytes,
                shown.name, seconds > 0 ? static_cast<double>(done) / 1e6 / seconds : 0);
  char percent[8];
  std::snprintf(percent, sizeof percent, "%3.0f%%", share * 100);
  const std::string left =
      share > 0 ? "  " + clock_text(seconds * (1 - share) / share) + " left" : "";
  return percent + bar + text + left;
}

progress::progress(std::string program, std::int64_t bytes, bool quiet)
    : program_(std::move(program)),
      bytes_(bytes),
      quiet_(quiet),
      on_terminal_(::isatty(STDERR_FILENO) == 1),
      begin_(clock::now()),
      next_(begin_) {
  if (!on_terminal_) next_ += std::chrono::seconds(10);
}

progress::~progress() {
  end();
}

void progress::end() {
  if (on_terminal_ && is_shown_) std::fputs("\r\x1B[K", stderr);
  is_shown_ = false;
}

void progress::show(std::int64_t done) {
  const clock::time_point now = clock::now();
  if (quiet_ || now < next_) return;
  constexpr int bar_width = 24;
  const std::string text = progress_text(done, bytes_, seconds(), on_terminal_ ? bar_width : 0);
  if (on_terminal_) {
    std::fprintf(stderr, "\r%s\x1B[K", text.c_str());
    next_ = now + std::chrono::milliseconds(200);
  } else {
    std::fprintf(stderr, "%s: %s\n", program_.c_str(), text.c_str());
    next_ = now + std::chrono::seconds(10);
  }
  is_shown_ = true;
}

double progress::seconds() const {
  return std::chrono::duration<double>(clock::now() - begin_).count();
}

}  // namespace gpt2_trainer
