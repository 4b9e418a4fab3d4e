/// @file
/// Where the time of a step goes: the calls of some steps, grouped by name, beside what the card
/// reaches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gpt2/machine/backend.hpp"
#include "gpt2/machine/call_profile.hpp"
#include "gpt2/model/config.hpp"

namespace gpt2_trainer {

/// All calls of a step that have the same name.
struct profile_row {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;  ///< the median over the steps of the sum over the calls
  double flops = 0;
  double bytes = 0;
  double least_seconds = 0;     ///< at the card's measured rates; 0: not known
  bool bound_by_flops = false;  ///< and not by bytes

  /// Operations or bytes a second, whichever bounds the calls.
  double rate() const { return (bound_by_flops ? flops : bytes) / seconds; }
};

struct profile_result {
  std::string machine;
  gpt2_config config;
  std::int64_t batch;
  std::int64_t sequence;
  std::int64_t tokens;  ///< of a step
  measured_rates ceilings;
  std::vector<timed_step> steps;     ///< at least one; all of the same calls
  std::vector<double> step_seconds;  ///< of steps as they are when nothing is timed inside
};

/// Those that take longest first.
std::vector<profile_row> profile_rows(const std::vector<timed_step>& steps,
                                      const measured_rates& ceilings);

/// What people read, in several lines.
std::string profile_table(const profile_result& result);

/// The same for programs; what is not known is null.
void write_profile(const std::filesystem::path& path, const profile_result& result);

}  // namespace gpt2_trainer
