#include "gpt2/run/report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "gpt2/run/json_text.hpp"
#include "gpt2/run/program.hpp"

namespace gpt2_trainer {
namespace {

using nlohmann::json;

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);  // progress must be seen through a pipe, too
}

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

std::string padded_right(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string size_text(std::size_t bytes) {
  constexpr double kibi = 1024;
  const auto size = static_cast<double>(bytes);
  return size < kibi * kibi ? format("%10.1f KiB", size / kibi)
                            : format("%10.1f MiB", size / kibi / kibi);
}

void say(const table& rows) {
  for (const auto& [name, value] : rows) say(padded_right(name, 15) + value);
}

/// Now, as 2026-01-31T23:59:59Z.
std::string time_text() {
  std::array<char, 32> text{};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace

std::string clock_text(double seconds) {
  if (!(seconds < 1e9)) return "?";
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole >= 3600) {
    return format("%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return format("%ld:%02ld", whole / 60, whole % 60);
}

std::string grouped(std::int64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

report::report(const std::string& log_file) {
  if (log_file.empty()) return;
  const json begin{
      {"event", "begin"}, {"program", version_of("gpt2_train")}, {"time", time_text()}};
  log_.emplace(log_file, log_schema, begin);
}

void report::log(const char* event, json values) {
  if (!log_) return;
  values["event"] = event;
  complain(log_->add(values));
}

void report::complain(const std::string& why) {
  if (why.empty() || failed_) return;
  failed_ = true;
  std::fprintf(stderr,
               "gpt2_train: %s: cannot write: %s; the run goes on, but its log is not complete\n",
               log_->path().c_str(), why.c_str());
}

bool report::is_complete() {
  if (log_) complain(log_->finish());
  return !failed_;
}

void report::settings(const table& rows, const json& values) {
  say(rows);
  log("settings", values);
}

void report::results(const table& rows) {
  say(rows);
}

void report::resumed(const table& rows, const json& values) {
  say(rows);
  log("resumed", values);
}

void report::memory(const std::vector<memory_item>& plan) {
  std::size_t total = 0;
  std::size_t width = 0;
  for (const memory_item& item : plan) {
    total += item.bytes;
    width = std::max(width, item.name.size());
  }
  json entries = json::object();
  say("\nMemory plan");
  for (const memory_item& item : plan) {
    say("  " + padded_right(item.name, width) + size_text(item.bytes));
    entries[item.name] = item.bytes;
  }
  say("  " + padded_right("total", width) + size_text(total) + "\n");
  log("memory", {{"memory_bytes", entries}});
}

void report::begin_steps() {
  say("    step     loss     norm        lr        ms    tok/s  ideal     left");
}

void report::step(const step_report& r) {
  const std::string ideal = r.ideal_share < 0 ? "-" : format("%.1f%%", 100 * r.ideal_share);
  say(format("%8lld %8.4f %8.3f %9.2e %9.1f %8.0f %6s %8s%s", static_cast<long long>(r.step),
             r.loss, r.gradient_norm, r.learning_rate, 1e3 * r.seconds, r.tokens_per_second,
             ideal.c_str(), clock_text(r.seconds_left).c_str(),
             r.skipped ? "  not finite: update skipped" : ""));
  log("step", {{"step", r.step},
               {"loss", r.loss},
               {"gradient_norm", r.gradient_norm},
               {"learning_rate", r.learning_rate},
               {"ms", 1e3 * r.seconds},
               {"tokens_per_second", r.tokens_per_second},
               {"ideal_share", r.ideal_share < 0 ? json() : json(r.ideal_share)},
               {"seconds_left", r.seconds_left},
               {"skipped", r.skipped}});
}

void report::validation(std::int64_t step, double loss) {
  say(format("%8lld %8.4f validation", static_cast<long long>(step), loss));
  log("validation", {{"step", step}, {"validation_loss", loss}});
}

void report::sample(std::int64_t step, const std::string& prompt, const std::string& text) {
  say("\n---- sample after step " + std::to_string(step) + " ----\n" + prompt + text +
      "\n---- end of sample ----\n");
  log("sample", {{"step", step}, {"prompt", json_of_text(prompt)}, {"sample", json_of_text(text)}});
}

void report::checkpoint(std::int64_t step, const std::string& model, const std::string& state,
                        bool last) {
  say(format("%8lld wrote ", static_cast<long long>(step)) + model);
  if (last) say("         go on from " + state);
  log("checkpoint",
      {{"step", step}, {"model", json_of_text(model)}, {"state", json_of_text(state)}});
}

void report::note(const std::string& text) {
  say(text);
  log("note", {{"note", json_of_text(text)}});
}

}  // namespace gpt2_trainer
