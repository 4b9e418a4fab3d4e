/// @file
/// How far a long task is, said on standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gpt2_trainer {

/// " 43%  1.2 of 2.8 GB  45.1 MB/s  0:36 left", with a bar if it has a width.
std::string progress_text(std::int64_t done, std::int64_t bytes, double seconds, int bar_width);

/// On a terminal a line that is written over, which goes at the end of the object; elsewhere a line
/// every ten seconds.
class progress {
 public:
  progress(std::string program, std::int64_t bytes, bool quiet);
  progress(const progress&) = delete;
  ~progress();

  /// So many bytes are done. It may be called as often as one likes.
  void show(std::int64_t done);
  /// Takes the line back.
  void end();
  /// Since the beginning.
  double seconds() const;

 private:
  using clock = std::chrono::steady_clock;

  std::string program_;
  std::int64_t bytes_;
  bool quiet_;
  bool on_terminal_;
  clock::time_point begin_;
  clock::time_point next_;
  bool is_shown_ = false;
};

}  // namespace gpt2_trainer
