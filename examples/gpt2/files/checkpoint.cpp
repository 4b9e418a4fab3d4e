#include "gpt2/files/checkpoint.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

/// The step of a name such as state_00000200.bin; -1 for any other name.
std::int64_t step_of(const fs::path& path) {
  long long step = -1;
  int end = 0;
  const std::string name = path.filename().string();
  const bool matches = std::sscanf(name.c_str(), "state_%lld.bin%n", &step, &end) == 1 &&
                       static_cast<std::size_t>(end) == name.size();
  return matches ? step : -1;
}

}  // namespace

checkpoint_paths checkpoint_at(const fs::path& folder, std::int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "_%08lld.bin", static_cast<long long>(step));
  return {folder / ("model" + std::string(name)), folder / ("state" + std::string(name))};
}

std::optional<checkpoint_paths> latest_checkpoint(const fs::path& folder) {
  std::int64_t latest = -1;
  if (fs::is_directory(folder)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      latest = std::max(latest, step_of(entry.path()));
    }
  }
  if (latest < 0) return std::nullopt;
  return checkpoint_at(folder, latest);
}

void write_checkpoint(const checkpoint_paths& paths, const model_file& model,
                      const training_state& state) {
  write_model(paths.model, model);
  write_state(paths.state, state);
}

checkpoint read_checkpoint(const fs::path& path) {
  checkpoint_paths paths{{}, path};
  if (fs::is_directory(path)) {
    const std::optional<checkpoint_paths> latest = latest_checkpoint(path);
    if (!latest) {
      throw input_error(path.string() + ": a folder with a state_*.bin is wanted, got one without");
    }
    paths = *latest;
  }
  training_state state = read_state(paths.state);
  paths.model = checkpoint_at(paths.state.parent_path(), state.step).model;
  checkpoint result{paths, read_model(paths.model), std::move(state)};
  const std::string sum = model_checksum(result.model.parameters);
  if (sum != result.state.model) {
    throw input_error(paths.model.string() + ": checksum of the model must be " +
                      result.state.model + " to go on from " + paths.state.string() + ", got " +
                      sum);
  }
  if (result.state.moments.m.size() != result.model.parameters.size()) {
    throw input_error(
        paths.state.string() + ": moments of " + std::to_string(result.model.parameters.size()) +
        " parameters are wanted, got " + std::to_string(result.state.moments.m.size()));
  }
  return result;
}

}  // namespace gpt2_trainer
