#include "gpt2_trainer/rules/outputs.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <tuple>
#include <vector>

#include "gpt2/data/token_source.hpp"
#include "gpt2/files/checkpoint.hpp"
#include "gpt2/files/writable.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/model/parameters.hpp"
#include "gpt2/run/measurement_json.hpp"
#include "gpt2/run/report.hpp"
#include "gpt2_trainer/product_plans.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

void require_space(const fs::path& folder, std::int64_t parameters) {
  // A model, and a state with two moments; a little more for their headers.
  const std::uintmax_t wanted = static_cast<std::uintmax_t>(parameters) * 3 * sizeof(float) + 8192;
  std::error_code unknown;
  const std::uintmax_t free = fs::space(existing_ancestor(folder), unknown).available;
  if (!unknown && free < wanted) {
    throw input_error("--out: a checkpoint needs " + std::to_string(wanted) + " bytes, but " +
                      folder.string() + " has room for " + std::to_string(free));
  }
}

constexpr const char* plans_in_out = "the file of plans in --out";

/// A file that an option names.
struct named_file {
  std::string option;
  fs::path path;
};

std::vector<named_file> outputs_of(const run_options& o) {
  std::vector<named_file> files{
      {"--log", o.log}, {"--benchmark-json", o.benchmark_json}, {"--profile-json", o.profile_json}};
  if (!o.plans.empty()) {
    files.push_back({"--plans", plan_file(o)});
  } else if (!o.out.empty()) {  // else the folder will be a new one
    files.push_back({plans_in_out, plan_file(o)});
  }
  const auto has_no_name = [](const named_file& each) { return each.path.empty(); };
  files.erase(std::remove_if(files.begin(), files.end(), has_no_name), files.end());
  return files;
}

/// Files, and folders that are read with all below them.
std::vector<named_file> inputs_of(const run_setup& setup) {
  const run_options& o = setup.options;
  std::vector<named_file> inputs;
  for (const auto& [option, pattern] : {std::pair{"--data", o.data}, std::pair{"--val", o.val}}) {
    if (pattern.empty()) continue;
    for (const fs::path& path : matching_paths(pattern)) inputs.push_back({option, path});
  }
  if (setup.state) {
    inputs.push_back({"--resume", setup.resumed.model});
    inputs.push_back({"--resume", setup.resumed.state});
  } else if (!o.checkpoint.empty()) {
    inputs.push_back({"--checkpoint", o.checkpoint});
  }
  return inputs;
}

/// By which a file is known whatever leads to it: its name, a link, another name for the same file.
using file_identity = std::tuple<bool, dev_t, ino_t>;

file_identity identity_of(const fs::path& path) {
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  return {exists, status.st_dev, status.st_ino};
}

bool are_one_file(const fs::path& a, const fs::path& b) {
  const file_identity file = identity_of(a);
  if (std::get<bool>(file)) return file == identity_of(b);
  return fs::weakly_canonical(a) == fs::weakly_canonical(b);
}

/// Two writers of one file write over each other; a pipe or a terminal may serve both.
bool is_standard_output(const fs::path& path) {
  struct stat status {};
  return ::fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode) &&
         identity_of(path) == file_identity{true, status.st_dev, status.st_ino};
}

bool lies_below(const fs::path& file, const fs::path& folder) {
  const fs::path inner = fs::weakly_canonical(file);
  const fs::path outer = fs::canonical(folder);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

[[noreturn]] void refuse(const named_file& output, const std::string& why) {
  throw input_error(output.option + " must be another file, got " + output.path.string() + ", " +
                    why);
}

/// Whether the file lies in a run's folder that is below this one: such a folder is passed over.
bool is_passed_over(const named_file& output, const fs::path& folder) {
  return output.option == plans_in_out && lies_below(output.path, folder) &&
         !are_one_file(output.path.parent_path(), folder);
}

/// Requires that the file is not read, now or by a run that goes on from this one.
void require_no_input(const named_file& output, const std::vector<named_file>& inputs) {
  for (const named_file& input : inputs) {
    const std::string why = "which is read as " + input.option;
    if (!fs::is_directory(input.path)) {
      if (are_one_file(output.path, input.path)) refuse(output, why);
      continue;
    }
    if (is_passed_over(output, input.path)) continue;
    if (lies_below(output.path, input.path))
      refuse(output, "which lies in the folder of " + input.option + " and would be read with it");
    if (!fs::exists(output.path)) continue;
    for (const auto& below : fs::recursive_directory_iterator(
             input.path, fs::directory_options::skip_permission_denied)) {
      if (are_one_file(output.path, below.path())) refuse(output, why);
    }
  }
}

/// Whether a run gives a file in its folder a name like this.
bool is_name_of_run(const std::string& name) {
  const bool begins = name.rfind("model_", 0) == 0 || name.rfind("state_", 0) == 0;
  return name == "run.lock" || (begins && fs::path(name).extension() == ".bin");
}

bool is_file_of_run(const fs::path& file, const fs::path& folder) {
  return is_name_of_run(file.filename().string()) &&
         are_one_file(file.has_parent_path() ? file.parent_path() : ".", folder);
}

/// Requires that the file can be written, and that nobody misses what it holds.
void require_file(const named_file& output) {
  const std::string path = output.path.string();
  if (fs::is_directory(path))
    throw input_error(output.option + " must be a file, got folder " + path);
  const bool is_added_to = output.option == "--log";
  if (is_added_to && fs::exists(path)) {
    require_access(path, W_OK, output.option);
  } else {
    require_writable(output.path.parent_path(), output.option);
  }
  if (is_added_to) require_own_lines(path, log_schema);
  if (output.option == "--benchmark-json") require_own_json(path, benchmark_schema);
  if (output.option == "--profile-json") require_own_json(path, profile_schema);
}

void require_checkpoints(const run_setup& setup, const std::vector<named_file>& inputs) {
  require_writable(setup.out, "--out");
  require_space(setup.out, parameter_layout(setup.config).count());
  if (setup.state) return;
  for (const named_file& input : inputs) {
    if (!is_file_of_run(input.path, setup.out)) continue;
    throw input_error("--out must be another folder than that of " + input.option +
                      ", which is a name that the run gives its own files, got " +
                      setup.out.string());
  }
}

}  // namespace

void require_outputs(const run_setup& setup) {
  const std::vector<named_file> inputs = inputs_of(setup);
  const std::vector<named_file> outputs = outputs_of(setup.options);
  const bool writes_checkpoints = *setup.options.checkpoint_every > 0;
  if (writes_checkpoints) require_checkpoints(setup, inputs);
  for (const named_file& output : outputs) {
    require_no_input(output, inputs);
    for (const named_file& other : outputs) {
      if (&other == &output) break;
      if (are_one_file(output.path, other.path))
        refuse(output, "which is written as " + other.option);
    }
    if (is_standard_output(output.path)) refuse(output, "to which standard output goes");
    if (writes_checkpoints && is_file_of_run(output.path, setup.out)) {
      refuse(output, "which is a name that the run gives its own files");
    }
    require_file(output);
  }
}

}  // namespace gpt2_trainer
