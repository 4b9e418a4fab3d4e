#include "profile.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "gpt2/files/file.hpp"
#include "gpt2/run/measurement_json.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

/// The time that the amount takes at this rate; 0 where the rate is not known.
double seconds_for(double amount, double rate) {
  return rate > 0 ? amount / rate : 0;
}

double flops_ceiling(const measured_rates& ceilings, call_kind kind) {
  return kind == call_kind::attention ? ceilings.attention_flops_per_second
                                      : ceilings.product_flops_per_second;
}

/// The row of the calls of that name in a step, without their time.
profile_row row_of(const std::string& name, const timed_step& step,
                   const measured_rates& ceilings) {
  profile_row row;
  row.name = name;
  double seconds_of_flops = 0;
  double seconds_of_bytes = 0;
  for (const timed_call& call : step) {
    if (call.name != name) continue;
    const double by_flops = seconds_for(call.cost.flops, flops_ceiling(ceilings, call.cost.kind));
    const double by_bytes = seconds_for(call.cost.bytes, ceilings.bytes_per_second);
    ++row.calls;
    row.flops += call.cost.flops;
    row.bytes += call.cost.bytes;
    row.least_seconds += std::max(by_flops, by_bytes);
    seconds_of_flops += by_flops;
    seconds_of_bytes += by_bytes;
  }
  row.bound_by_flops = row.flops > 0 && seconds_of_flops >= seconds_of_bytes;
  return row;
}

/// The seconds of each name in each step.
std::map<std::string, std::vector<double>> seconds_by_name(const std::vector<timed_step>& steps) {
  std::map<std::string, std::vector<double>> seconds;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const timed_call& call : steps[i]) {
      std::vector<double>& of_name = seconds[call.name];
      of_name.resize(steps.size());
      of_name[i] += call.seconds;
    }
  }
  return seconds;
}

profile_row total_of(const std::vector<profile_row>& rows) {
  profile_row total;
  total.name = "sum of the calls";
  for (const profile_row& row : rows) {
    total.calls += row.calls;
    total.seconds += row.seconds;
    total.least_seconds += row.least_seconds;
  }
  return total;
}

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

constexpr double tera = 1e12;

const char* unit_of(const profile_row& row) {
  return row.bound_by_flops ? "TF/s" : "TB/s";
}

std::string line_of(const profile_row& row, double all_seconds, int width) {
  const bool has_rate = row.flops + row.bytes > 0 && row.seconds > 0;
  const std::string rate = has_rate ? format("%.3g %s", row.rate() / tera, unit_of(row)) : "-";
  const std::string share =
      row.least_seconds > 0 ? format("%.1f%%", 100 * row.least_seconds / row.seconds) : "-";
  return format("%-*s %6lld %10.4f %6.1f%% %12s %11s\n", width, row.name.c_str(),
                static_cast<long long>(row.calls), 1e3 * row.seconds,
                100 * row.seconds / all_seconds, rate.c_str(), share.c_str());
}

std::string ceilings_text(const measured_rates& c) {
  if (c.bytes_per_second <= 0) return "No ceilings are measured on this machine.\n";
  return format(
      "Ceilings, measured at the start of this run: copy %.3g TB/s, products %.4g TF/s, "
      "products in attention's arithmetic %.4g TF/s\n",
      c.bytes_per_second / tera, c.product_flops_per_second / tera,
      c.attention_flops_per_second / tera);
}

json or_null(double value) {
  return value > 0 ? json(value) : json();
}

json row_json(const profile_row& row, double all_seconds) {
  const bool has_time = row.seconds > 0;
  return {{"name", row.name},
          {"calls", row.calls},
          {"milliseconds", 1e3 * row.seconds},
          {"share", row.seconds / all_seconds},
          {"flops", row.flops},
          {"bytes", row.bytes},
          {"flops_per_second", has_time ? or_null(row.flops / row.seconds) : json()},
          {"bytes_per_second", has_time ? or_null(row.bytes / row.seconds) : json()},
          {"bound_by", row.bound_by_flops ? "flops" : "bytes"},
          {"ceiling_share", has_time ? or_null(row.least_seconds / row.seconds) : json()}};
}

}  // namespace

std::vector<profile_row> profile_rows(const std::vector<timed_step>& steps,
                                      const measured_rates& ceilings) {
  std::vector<profile_row> rows;
  for (const auto& [name, seconds] : seconds_by_name(steps)) {
    rows.push_back(row_of(name, steps.front(), ceilings));
    rows.back().seconds = quartiles_of(seconds).median;
  }
  const auto takes_longer = [](const profile_row& a, const profile_row& b) {
    return a.seconds > b.seconds;
  };
  std::stable_sort(rows.begin(), rows.end(), takes_longer);
  return rows;
}

std::string profile_table(const profile_result& r) {
  const std::vector<profile_row> rows = profile_rows(r.steps, r.ceilings);
  const profile_row total = total_of(rows);
  std::size_t longest = total.name.size();
  for (const profile_row& row : rows) longest = std::max(longest, row.name.size());
  const int width = static_cast<int>(longest);

  std::string text = format("%-*s %6s %10s %7s %12s %11s\n", width, "call", "calls", "ms", "step",
                            "rate", "of ceiling");
  for (const profile_row& row : rows) text += line_of(row, total.seconds, width);
  text += line_of(total, total.seconds, width);
  text += format("%-*s %6s %10.4f\n\n", width, "a step by itself", "",
                 1e3 * quartiles_of(r.step_seconds).median);
  text += ceilings_text(r.ceilings);
  text += "Medians of " + std::to_string(r.steps.size()) + " steps with each call timed, and of " +
          std::to_string(r.step_seconds.size()) + " steps by themselves";
  return text;
}

void write_profile(const std::filesystem::path& path, const profile_result& r) {
  const std::vector<profile_row> rows = profile_rows(r.steps, r.ceilings);
  const profile_row total = total_of(rows);
  json calls = json::array();
  for (const profile_row& row : rows) calls.push_back(row_json(row, total.seconds));
  write_file(
      path,
      file_text(profile_schema,
                {{"machine", r.machine},
                 {"model", model_json(r.config)},
                 {"batch", r.batch},
                 {"sequence", r.sequence},
                 {"tokens", r.tokens},
                 {"ceilings",
                  {{"bytes_per_second", or_null(r.ceilings.bytes_per_second)},
                   {"product_flops_per_second", or_null(r.ceilings.product_flops_per_second)},
                   {"attention_flops_per_second", or_null(r.ceilings.attention_flops_per_second)}}},
                 {"profiled_steps", r.steps.size()},
                 {"calls", calls},
                 {"sum_milliseconds", 1e3 * total.seconds},
                 {"step_milliseconds", milliseconds_json(r.step_seconds)}}));
}

}  // namespace gpt2_trainer
