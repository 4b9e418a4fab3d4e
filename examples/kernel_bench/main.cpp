/// @file
/// kernel_bench: every variant of every layer, checked against the CPU reference and then timed.
/// See --help and docs/kernel-bench.md.
#include <cuda_profiler_api.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench.hpp"
#include "plot.hpp"
#include "registry/registry.hpp"
#include "registry/selection.hpp"
#include "report.hpp"

namespace {

using namespace kernel_bench;
using llmc_registry::extents;
using llmc_registry::operation;
using llmc_registry::operations;

constexpr const char* standard_output = "-";

struct options {
  std::vector<std::string> names;  ///< empty: all operations
  llmc_registry::selection entries;
  extents shape;  ///< what is not given keeps its default
  int repeats = 21;
  int times = 1;
  std::string json, csv, plot;  ///< files, or standard output
};

std::set<std::string> all_parameters() {
  std::set<std::string> names;
  for (const operation& o : operations()) {
    for (const auto& p : o.parameters) names.insert(p.name);
  }
  return names;
}

void add_shape(CLI::App& command, options& given) {
  for (const std::string& name : all_parameters()) {
    const auto keep = [&given, name](const std::int64_t& value) { given.shape[name] = value; };
    command
        .add_option_function<std::int64_t>(
            "--" + name, keep, "of the operations that have it; `list` shows what it is else")
        ->check(CLI::PositiveNumber)
        ->group("Shape");
  }
}

void add_selection(CLI::App& command, options& given, const char* else_taken) {
  const std::string rest = std::string("; else ") + else_taken;
  command.add_option("--variant", given.entries.variant, "as `list` names it" + rest);
  command.add_option("--block", given.entries.block_size, "the block size in threads" + rest)
      ->check(CLI::Range(1, 1024));
  command.add_option("--precision", given.entries.precision, "of products and attention" + rest);
}

void add_measuring(CLI::App& command, options& given) {
  command.add_option("--repeats", given.repeats, "timed runs of each entry")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  const auto output = [&](const char* name, std::string& file, const char* form) {
    command
        .add_option(name, file,
                    std::string(form) + ", into this file or, without a name, to the screen")
        ->expected(0, 1)
        ->default_str(standard_output);
  };
  output("--json", given.json, "everything as JSON");
  output("--csv", given.csv, "a line for each entry");
  output("--plot", given.plot, "an SVG picture");
}

extents shape_for(const operation& o, const extents& given) {
  extents shape = llmc_registry::default_shape(o);
  for (auto& [name, value] : shape) {
    const auto found = given.find(name);
    if (found != given.end()) value = found->second;
  }
  return shape;
}

void write(const std::string& file, const std::string& text) {
  if (file == standard_output) {
    std::cout << text;
    return;
  }
  std::ofstream stream(file);
  stream << text;
  stream.close();
  if (!stream) throw std::runtime_error("cannot write " + file);
}

void require_gpu() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) {
    throw std::runtime_error(std::string("needs a GPU: ") + cudaGetErrorString(code));
  }
}

report measure(bench& measuring, const operation& o, const extents& given) {
  try {
    return measuring.measure(o, shape_for(o, given));
  } catch (const std::exception& error) {
    throw std::runtime_error(o.name + ": " + error.what());
  }
}

/// The operations that are meant, each with the entries that are.
std::vector<operation> chosen_operations(const options& given) {
  std::vector<operation> chosen;
  for (const std::string& name : given.names) {
    chosen.push_back(llmc_registry::operation_named(name));
    chosen.back().entries = select(chosen.back(), given.entries);
  }
  return given.names.empty() ? operations() : chosen;
}

/// Runs one entry as often as it was asked for, in the range that profilers call the profiler's.
/// Whatever has to be done once, such as loading the kernels, is done before.
void run_once(options given) {
  if (!given.entries.variant) given.entries.variant = "automatic";
  if (!given.entries.block_size) given.entries.block_size = llmc_registry::selection::default_block;
  const operation o = chosen_operations(given).front();
  const llmc_registry::entry& e = o.entries.front();
  require_gpu();

  const extents shape = shape_for(o, given.shape);
  const auto problem = o.make_problem(shape, {});
  const llmc_test::stream stream;
  problem->reset(stream);
  llmc_registry::run(e, *problem, stream);
  for (int i = 0; i < given.times; ++i) {
    problem->restore(stream);
    stream.synchronize();
    llmc_test::check_cuda(cudaProfilerStart());
    llmc_registry::run(e, *problem, stream);
    stream.synchronize();
    llmc_test::check_cuda(cudaProfilerStop());
  }
  std::cout << o.name << ", " << to_string(e) << ", " << to_string(shape) << ": ran " << given.times
            << (given.times == 1 ? " time\n" : " times\n");
}

/// Whether every entry was right.
bool run(const options& given) {
  const std::vector<operation> chosen = chosen_operations(given);
  require_gpu();

  const circumstances here = describe_device(given.repeats);
  const bool screen_is_taken = given.json == standard_output || given.csv == standard_output ||
                               given.plot == standard_output;
  std::ostream& screen = screen_is_taken ? std::cerr : std::cout;
  screen << here.device << ", CUDA " << here.runtime << ", median of " << here.repeats
         << " runs with a cold L2 cache\n";
  bench measuring(given.repeats);
  std::vector<report> reports;
  for (const operation& o : chosen) {
    reports.push_back(measure(measuring, o, given.shape));
    screen << "\n" << as_table(reports.back()) << std::flush;
  }
  if (!given.json.empty()) write(given.json, as_json(here, reports));
  if (!given.csv.empty()) write(given.csv, as_csv(reports));
  if (!given.plot.empty()) write(given.plot, as_svg(here.device, reports));
  return std::all_of(reports.begin(), reports.end(), [](const report& r) { return r.all_right(); });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Every variant of every layer of llmc, checked and timed.", "kernel_bench");
  app.require_subcommand(1);
  options given;
  CLI::App* const list_command = app.add_subcommand("list", "name operations, shapes and variants");
  CLI::App* const run_command = app.add_subcommand("run", "check and time some operations");
  CLI::App* const all_command = app.add_subcommand("all", "check and time all operations");
  CLI::App* const once_command =
      app.add_subcommand("once", "only run one variant of an operation, for a profiler");
  run_command->add_option("operation", given.names, "as `list` names them")->required();
  once_command->add_option("operation", given.names, "as `list` names it")->required()->expected(1);
  add_selection(*run_command, given, "all");
  add_selection(*once_command, given, "the library's default");
  once_command->add_option("--times", given.times, "how often")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  for (CLI::App* command : {run_command, all_command}) add_measuring(*command, given);
  for (CLI::App* command : {run_command, all_command, once_command}) add_shape(*command, given);
  CLI11_PARSE(app, argc, argv);

  try {
    if (list_command->parsed()) {
      std::cout << llmc_registry::listing();
      return 0;
    }
    if (once_command->parsed()) {
      run_once(given);
      return 0;
    }
    return run(given) ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "kernel_bench: " << error.what() << "\n";
    return 1;
  }
}
