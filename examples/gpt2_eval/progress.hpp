/// @file
/// How far the program is, on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace gpt2_trainer {

/// A line on standard error that changes in place; nothing where that is no terminal.
class progress_line {
 public:
  /// Of so many things in all, which are called `unit`.
  progress_line(std::string what, std::int64_t all, std::string unit);
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;
  /// Takes the line away.
  ~progress_line();

  void show(std::int64_t done);

 private:
  using clock = std::chrono::steady_clock;

  std::string what_;
  std::int64_t all_;
  std::string unit_;
  bool is_seen_;
  clock::time_point begin_ = clock::now();
  clock::time_point next_ = begin_;
};

}  // namespace gpt2_trainer
