/// @file
/// How long steps take, and what that is in rates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gpt2/machine/backend.hpp"
#include "gpt2/model/gpt2.hpp"
#include "gpt2/run/quartiles.hpp"
#include "gpt2/run/report.hpp"

namespace gpt2_trainer {

struct benchmark_result {
  std::string machine;
  gpt2_config config;
  std::int64_t batch;
  std::int64_t sequence;
  std::int64_t tokens;  ///< of a step
  double operations;    ///< of a step
  peak_rates peak;
  std::vector<memory_item> memory;
  std::vector<double> seconds;  ///< of each step, in their order
};

/// What people read: times, tokens a second, the share of the peak, memory.
table benchmark_table(const benchmark_result& result);

/// All of it for programs; what is not known is null.
void write_benchmark(const std::filesystem::path& path, const benchmark_result& result);

}  // namespace gpt2_trainer
