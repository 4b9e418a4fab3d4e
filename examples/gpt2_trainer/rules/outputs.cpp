#include "gpt2_trainer/rules/outputs.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "gpt2/input_error.hpp"
#include "gpt2/model/parameters.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

/// The nearest folder that exists on the way to this one.
fs::path existing_ancestor(fs::path path) {
  path = fs::absolute(path).lexically_normal();
  while (!fs::exists(path) && path.has_parent_path() && path != path.parent_path()) {
    path = path.parent_path();
  }
  return path;
}

void require_writable(const fs::path& folder, const std::string& option) {
  const fs::path ancestor = existing_ancestor(folder);
  if (!fs::is_directory(ancestor)) {
    throw input_error(option + " must lie in a folder, but " + ancestor.string() + " is a file");
  }
  if (::access(ancestor.c_str(), W_OK | X_OK) != 0) {
    throw input_error(option + " must be writable, but " + ancestor.string() +
                      " is not: " + std::strerror(errno));
  }
}

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

/// Requires that this file can be written, if it is named.
void require_file(const std::string& path, const std::string& option) {
  if (path.empty()) return;
  if (fs::is_directory(path)) throw input_error(option + " must be a file, got folder " + path);
  require_writable(fs::path(path).parent_path(), option);
}

}  // namespace

void require_outputs(const run_setup& setup) {
  const run_options& o = setup.options;
  if (*o.checkpoint_every > 0) {
    require_writable(setup.out, "--out");
    require_space(setup.out, parameter_layout(setup.config).count());
  }
  require_file(o.log, "--log");
  require_file(o.benchmark_json, "--benchmark-json");
  require_file(o.profile_json, "--profile-json");
  if (o.plans != no_plans) require_file(o.plans, "--plans");
}

}  // namespace gpt2_trainer
