#include "report.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include <llmc/version.hpp>

namespace kernel_bench {
namespace {

using llmc_test::check_cuda;
using nlohmann::json;

/// printf into a string.
__attribute__((format(printf, 1, 2))) std::string format(const char* text, ...) {
  char line[512];
  std::va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(line, sizeof line, text, arguments);
  va_end(arguments);
  return line;
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string precision_of(const result& r) {
  return r.entry.arithmetic ? to_string(*r.entry.arithmetic) : "";
}

const char* to_string(verdict v) {
  switch (v) {
    case verdict::right: return "right";
    case verdict::wrong: return "wrong";
    case verdict::unsupported: return "unsupported";
  }
  return "unknown";
}

std::string row(const report& r, const result& one, int width) {
  const std::string block =
      std::to_string(one.entry.block_size) + (one.entry.is_default ? "*" : "");
  std::string text = format("%-2s%-*s  %6s  %-7s", one.is_fastest ? ">" : "", width,
                            one.entry.variant.c_str(), block.c_str(), precision_of(one).c_str());
  if (one.outcome != verdict::right) {
    return text + format("  %s: ", to_string(one.outcome)) + one.reason + "\n";
  }
  text += format("  %10.2f  %5.1f%%  ", one.time.us, 100 * one.time.spread);
  text += format("%9.*f", r.flops > 0 ? 2 : 0, one.rate);
  return text + format("  %6.1f%%  %7.3f\n", 100 * one.share, one.error);
}

json as_json(const result& r) {
  json j = {{"variant", r.entry.variant},
            {"block_size", r.entry.block_size},
            {"default_block_size", r.entry.is_default},
            {"result", to_string(r.outcome)},
            {"error", r.error}};
  if (r.entry.arithmetic) j["precision"] = precision_of(r);
  if (r.outcome != verdict::right) {
    j["reason"] = r.reason;
    return j;
  }
  j["us"] = r.time.us;
  j["spread"] = r.time.spread;
  j["rate"] = r.rate;
  j["share"] = r.share;
  j["fastest"] = r.is_fastest;
  return j;
}

json as_json(const report& r) {
  json j = {
      {"operation", r.operation}, {"shape", r.shape},        {"checked_shape", r.checked_shape},
      {"bytes", r.bytes},         {"flops", r.flops},        {"unit", r.unit()},
      {"ceilings", r.ceilings},   {"entries", json::array()}};
  for (const result& one : r.results) j["entries"].push_back(as_json(one));
  return j;
}

}  // namespace

circumstances describe_device(int repeats) {
  int device = 0, driver = 0, runtime = 0;
  cudaDeviceProp properties;
  check_cuda(cudaGetDevice(&device));
  check_cuda(cudaGetDeviceProperties(&properties, device));
  check_cuda(cudaDriverGetVersion(&driver));
  check_cuda(cudaRuntimeGetVersion(&runtime));
  return {properties.name,
          std::to_string(properties.major) + "." + std::to_string(properties.minor),
          version_text(driver),
          version_text(runtime),
          properties.l2CacheSize,
          repeats};
}

std::string to_string(const llmc_registry::extents& shape) {
  std::string text;
  for (const auto& [name, value] : shape) {
    text += (text.empty() ? "" : ", ") + name + " " + std::to_string(value);
  }
  return text;
}

std::string as_table(const report& r) {
  std::size_t width = 9;
  for (const result& one : r.results) width = std::max(width, one.entry.variant.size());
  const int columns = static_cast<int>(width);

  std::string text = r.operation + ": " + to_string(r.shape) +
                     format(", %.1f MB", static_cast<double>(r.bytes) / 1e6);
  if (r.flops > 0) text += format(", %.1f GFLOP", r.flops / 1e9);
  for (const auto& [name, rate] : r.ceilings) {
    text += format("; %s %.0f %s", name.c_str(), rate, r.unit());
  }
  text += "\nchecked against the CPU at " + to_string(r.checked_shape) + "\n";
  text += format("  %-*s  %6s  %-7s  %10s  %6s  %9s  %7s  %7s\n", columns, "variant", "block", "",
                 "us", "spread", r.unit(), "share", "error");
  for (const result& one : r.results) text += row(r, one, columns);
  return text;
}

std::string as_json(const circumstances& c, const std::vector<report>& reports) {
  json j = {
      {"llmc", format("%d.%d.%d", LLMC_VERSION_MAJOR, LLMC_VERSION_MINOR, LLMC_VERSION_PATCH)},
      {"device", c.device},
      {"compute_capability", c.compute_capability},
      {"cuda_driver", c.driver},
      {"cuda_runtime", c.runtime},
      {"l2_bytes", c.l2_bytes},
      {"repeats", c.repeats},
      {"operations", json::array()}};
  for (const report& r : reports) j["operations"].push_back(as_json(r));
  return j.dump(2) + "\n";
}

std::string as_csv(const std::vector<report>& reports) {
  std::ostringstream text;
  text << "operation,shape,variant,block_size,precision,result,us,spread,rate,unit,share,error,"
          "fastest\n";
  for (const report& r : reports) {
    for (const result& one : r.results) {
      text << r.operation << ",\"" << to_string(r.shape) << "\"," << one.entry.variant << ','
           << one.entry.block_size << ',' << precision_of(one) << ',' << to_string(one.outcome)
           << ',';
      if (one.outcome == verdict::right) {
        text << one.time.us << ',' << one.time.spread << ',' << one.rate << ',' << r.unit() << ','
             << one.share << ',' << one.error << ',' << (one.is_fastest ? 1 : 0) << '\n';
      } else {
        text << ",,,,," << one.error << ",0\n";
      }
    }
  }
  return text.str();
}

}  // namespace kernel_bench
