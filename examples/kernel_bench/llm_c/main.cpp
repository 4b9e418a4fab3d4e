/// @file
/// llm_c_bench: times karpathy/llm.c's FP32 kernels at the shapes of kernel_bench. See --help and
/// docs/kernel-bench.md.
#include "bench.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "arrays.hpp"
#include "llm_c.hpp"
#include "registry/kernels.hpp"

namespace llm_c_bench {

void peer_bench::measure(const peer_way& way, const std::vector<peer_output>& outputs,
                         const work& launch, const work& prepare) {
  prepare(stream);
  launch(stream);
  double difference = 0;
  for (const peer_output& o : outputs) {
    const llmc_test::tolerance unit{o.typical, 1};
    difference =
        std::max(difference, llmc_registry::largest_ratio(o.theirs, o.ours, o.count, unit, stream));
  }
  results_.push_back({way, watch_.time(launch, prepare), difference});
}

namespace {

using nlohmann::json;

constexpr double most_difference = 1e-2;  // between TF32 and FP32 it is about a tenth of this

std::string device_name() {
  int device = 0;
  cudaDeviceProp properties;
  check_cuda(cudaGetDevice(&device));
  check_cuda(cudaGetDeviceProperties(&properties, device));
  return properties.name;
}

std::string runtime_version() {
  int version = 0;
  check_cuda(cudaRuntimeGetVersion(&version));
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

bool is_right(const peer_result& r) {
  return r.difference <= most_difference;
}

std::string precision_of(const peer_result& r) {
  return r.way.arithmetic ? to_string(*r.way.arithmetic) : "";
}

void print_row(const peer_result& r) {
  const std::string name = (r.way.is_part ? "part: " : "") + r.way.name;
  std::printf("%-28s  %-58s  %-5s  %10.2f  %5.1f%%  %10.2e%s\n", r.way.operation.c_str(),
              name.c_str(), precision_of(r).c_str(), r.time.us, 100 * r.time.spread, r.difference,
              is_right(r) ? "" : "  WRONG");
  std::fflush(stdout);
}

json as_json(const peer_result& r) {
  json j = {{"way", r.way.name},
            {"us", r.time.us},
            {"spread", r.time.spread},
            {"difference", r.difference},
            {"right", is_right(r)}};
  if (r.way.arithmetic) j["precision"] = precision_of(r);
  if (r.way.is_part) j["part"] = true;
  return j;
}

/// What every operation of kernel_bench has that has such an extent; channels differ.
json common_shape() {
  return {{"batch", batch},
          {"sequence", sequence},
          {"rows", rows},
          {"heads", heads},
          {"head_size", head_size},
          {"vocabulary", vocabulary},
          {"padded_vocabulary", padded_vocabulary},
          {"count", parameter_count()}};
}

void write_json(const std::string& file, int repeats, const std::vector<peer_result>& results) {
  json j = {{"device", device_name()},
            {"repeats", repeats},
            {"shape", common_shape()},
            {"llm_c", {{"cuda", runtime_version()}}},
            {"operations", json::object()}};
  for (const peer_result& r : results) j["operations"][r.way.operation].push_back(as_json(r));
  std::ofstream stream(file);
  stream << j.dump(2) << "\n";
  stream.close();
  if (!stream) throw std::runtime_error("cannot write " + file);
}

/// Those with a call of cuBLASLt at last: where it has no algorithm, llm.c ends the program.
std::vector<measurement> all_measurements() {
  std::vector<measurement> all;
  for (const auto& some : {layer_measurements(), loss_measurements(), optimizer_measurements(),
                           product_measurements()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

/// Whether llm.c and llmc agree in everything.
bool run(int repeats, const std::string& file) {
  std::printf("%s, CUDA %s, median of %d runs with a cold L2 cache\n", device_name().c_str(),
              runtime_version().c_str(), repeats);
  std::printf("%-28s  %-58s  %-5s  %10s  %6s  %10s\n", "operation", "llm.c's way", "", "us",
              "spread", "difference");
  const llm_c::state state;
  peer_bench bench(repeats);
  std::size_t printed = 0;
  for (const measurement measure : all_measurements()) {
    measure(bench);
    for (; printed < bench.results().size(); ++printed) print_row(bench.results()[printed]);
    if (!file.empty()) write_json(file, repeats, bench.results());
  }
  return std::all_of(bench.results().begin(), bench.results().end(), is_right);
}

}  // namespace
}  // namespace llm_c_bench

int main(int argc, char** argv) {
  CLI::App app("karpathy/llm.c's FP32 kernels, compared with llmc's results and timed.",
               "llm_c_bench");
  int repeats = 21;
  std::string file;
  app.add_option("--repeats", repeats, "timed runs of each way")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--json", file, "write everything into this file, for compare_llm_c.py");
  CLI11_PARSE(app, argc, argv);

  try {
    return llm_c_bench::run(repeats, file) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "llm_c_bench: " << error.what() << "\n";
    return 1;
  }
}
