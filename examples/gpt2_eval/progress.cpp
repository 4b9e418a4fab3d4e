#include "gpt2_eval/progress.hpp"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "gpt2/run/report.hpp"

namespace gpt2_trainer {
namespace {

constexpr const char* to_begin_of_empty_line = "\r\x1b[K";

}  // namespace

progress_line::progress_line(std::string what, std::int64_t all, std::string unit)
    : what_(std::move(what)),
      all_(all),
      unit_(std::move(unit)),
      is_seen_(::isatty(STDERR_FILENO) == 1) {}

progress_line::~progress_line() {
  if (is_seen_) std::fputs(to_begin_of_empty_line, stderr);
}

void progress_line::show(std::int64_t done) {
  const clock::time_point now = clock::now();
  if (!is_seen_ || now < next_) return;
  next_ = now + std::chrono::milliseconds(200);
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double rate = static_cast<double>(done) / seconds;
  std::fprintf(stderr, "%s%s: %3.0f%%, %.0f %s/s, %s left", to_begin_of_empty_line, what_.c_str(),
               100 * static_cast<double>(done) / static_cast<double>(all_), rate, unit_.c_str(),
               clock_text(static_cast<double>(all_ - done) / rate).c_str());
}

}  // namespace gpt2_trainer
