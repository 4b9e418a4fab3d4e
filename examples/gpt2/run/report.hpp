/// @file
/// What a run says: tables and lines on the terminal, the same as JSON lines in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpt2/model/memory_planner.hpp"

namespace gpt2_trainer {

struct step_report {
  std::int64_t step;
  double loss;
  double gradient_norm;
  double learning_rate;
  double seconds;
  double tokens_per_second;
  double ideal_share;  ///< ideal time / time; negative: not known
  double seconds_left;
  bool skipped;  ///< loss or norm was not finite, so nothing was updated
};

using table = std::vector<std::pair<std::string, std::string>>;

class report {
 public:
  /// Opens the log's file for JSON lines; to go on with a run, at its end. An empty name: no log.
  report(const std::string& log, bool go_on);

  void settings(const table& rows);
  void memory(const std::vector<memory_item>& plan);
  void begin_steps();
  void step(const step_report& values);
  void validation(std::int64_t step, double loss);
  void sample(std::int64_t step, const std::string& prompt, const std::string& text);
  void checkpoint(std::int64_t step, const std::string& model, const std::string& state, bool last);
  /// A sentence of its own.
  void note(const std::string& text);

 private:
  struct close_file {
    void operator()(std::FILE* stream) const { std::fclose(stream); }
  };
  void log(const std::string& line);

  std::unique_ptr<std::FILE, close_file> log_;
};

/// 1:23:45 or 2:05.
std::string clock_text(double seconds);
/// 1,234,567.
std::string grouped(std::int64_t value);

}  // namespace gpt2_trainer
