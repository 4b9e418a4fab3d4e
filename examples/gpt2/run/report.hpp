/// @file
/// What a run says: tables and lines on the terminal, the same as JSON lines in a file.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpt2/model/memory_planner.hpp"
#include "gpt2/run/json_file.hpp"

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

/// A log's lines; docs/trainer.md says what they hold.
inline constexpr json_schema log_schema{"llmc.gpt2_train.log", 1};

class report {
 public:
  /// Opens the log, which is added to, and begins a run in it. An empty name: no log.
  explicit report(const std::string& log);

  /// `values` say the same for programs.
  void settings(const table& rows, const nlohmann::json& values);
  /// What the run goes on from. The log's entries of later steps do not count any more.
  void resumed(const table& rows, const nlohmann::json& values);
  void memory(const std::vector<memory_item>& plan);
  void begin_steps();
  void step(const step_report& values);
  void validation(std::int64_t step, double loss);
  void sample(std::int64_t step, const std::string& prompt, const std::string& text);
  void checkpoint(std::int64_t step, const std::string& model, const std::string& state, bool last);
  /// What was measured, for people only: programs read the file that is written for them.
  void results(const table& rows);
  /// A sentence of its own.
  void note(const std::string& text);

  /// Whether the log, if there is one, lacks nothing and is on the disk. A first failure is said on
  /// stderr when it happens.
  bool is_complete();

 private:
  void log(const char* event, nlohmann::json values);
  void complain(const std::string& why);

  std::optional<json_lines> log_;
  bool failed_ = false;
};

/// 1:23:45 or 2:05.
std::string clock_text(double seconds);
/// 1,234,567.
std::string grouped(std::int64_t value);

}  // namespace gpt2_trainer
