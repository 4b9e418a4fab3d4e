#include "benchmark.hpp"

#include <cmath>
#include <cstdio>

#include "gpt2/files/file.hpp"
#include "gpt2/run/measurement_json.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

std::string fixed(double value, int digits, const char* unit) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f%s", digits, value, unit);
  return text;
}

/// In units of 10^12.
std::string rate_text(double operations_per_second) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", 1e-12 * operations_per_second);
  return text;
}

std::size_t total_bytes(const std::vector<memory_item>& memory) {
  std::size_t total = 0;
  for (const memory_item& item : memory) total += item.bytes;
  return total;
}

}  // namespace

table benchmark_table(const benchmark_result& r) {
  const quartiles q = quartiles_of(r.seconds);
  const double rate = r.operations / q.median;
  const std::string share =
      r.peak.flops_per_second > 0
          ? ", " + fixed(100 * rate / r.peak.flops_per_second, 1, "% of the peak of ") +
                rate_text(r.peak.flops_per_second)
          : "";
  return {{"steps", std::to_string(r.seconds.size()) + " of " + grouped(r.tokens) + " tokens"},
          {"median", fixed(1e3 * q.median, 3, " ms")},
          {"minimum", fixed(1e3 * q.minimum, 3, " ms")},
          {"quartiles", fixed(1e3 * q.lower, 3, " and ") + fixed(1e3 * q.upper, 3, " ms")},
          {"maximum", fixed(1e3 * q.maximum, 3, " ms")},
          {"tokens/s", grouped(std::llround(static_cast<double>(r.tokens) / q.median))},
          {"model TFLOP/s", rate_text(rate) + share},
          {"memory", fixed(static_cast<double>(total_bytes(r.memory)) / (1 << 30), 3, " GiB")}};
}

void write_benchmark(const std::filesystem::path& path, const benchmark_result& r) {
  const double seconds = quartiles_of(r.seconds).median;
  const double rate = r.operations / seconds;
  const bool known = r.peak.flops_per_second > 0;
  json memory = json::object();
  for (const memory_item& item : r.memory) memory[item.name] = item.bytes;
  const json result{
      {"machine", r.machine},
      {"model", model_json(r.config)},
      {"batch", r.batch},
      {"sequence", r.sequence},
      {"tokens", r.tokens},
      {"steps", r.seconds.size()},
      {"milliseconds", milliseconds_json(r.seconds)},
      {"tokens_per_second", static_cast<double>(r.tokens) / seconds},
      {"model_flops", r.operations},
      {"model_flops_per_second", rate},
      {"peak_flops_per_second", known ? json(r.peak.flops_per_second) : json()},
      {"model_flops_utilisation", known ? json(rate / r.peak.flops_per_second) : json()},
      {"memory_bytes", memory},
      {"total_memory_bytes", total_bytes(r.memory)}};
  write_file(path, file_text(benchmark_schema, result));
}

}  // namespace gpt2_trainer
