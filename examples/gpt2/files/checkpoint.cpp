#include "gpt2/files/checkpoint.hpp"

#include <cstdio>
#include <functional>
#include <set>
#include <utility>

#include "gpt2/files/file.hpp"
#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t no_step = -1;

/// The step of the name of a state or a model.
std::int64_t step_of(const std::string& name) {
  long long step = no_step;
  if (std::sscanf(name.c_str(), "%*5c_%lld", &step) != 1 || step < 0) return no_step;
  const checkpoint_paths names = checkpoint_at({}, step);
  return name == names.state || name == names.model ? step : no_step;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  if (!fs::is_directory(folder)) return names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

checkpoint read_pair(const fs::path& path, non_finite_choice non_finite) {
  training_state state = read_state(path, non_finite);
  const std::int64_t named = step_of(path.filename().string());
  if (named != no_step && named != state.step) {
    throw input_error(path.string() + ": step must be " + std::to_string(named) +
                      " as in the file's name, got " + std::to_string(state.step));
  }
  const fs::path beside = checkpoint_at(path.parent_path(), state.step).model;
  checkpoint result{{beside, path}, read_model(beside, non_finite), std::move(state)};
  if (result.model.checksum != result.state.model) {
    throw input_error(beside.string() + ": checksum of the model must be " + result.state.model +
                      " to go on from " + path.string() + ", got " + result.model.checksum);
  }
  if (result.state.moments.m.size() != result.model.parameters.size()) {
    throw input_error(
        path.string() + ": moments of " + std::to_string(result.model.parameters.size()) +
        " parameters are wanted, got " + std::to_string(result.state.moments.m.size()));
  }
  return result;
}

}  // namespace

checkpoint_paths checkpoint_at(const fs::path& folder, std::int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "_%08lld.bin", static_cast<long long>(step));
  return {folder / ("model" + std::string(name)), folder / ("state" + std::string(name))};
}

std::vector<std::int64_t> steps_in(const fs::path& folder) {
  std::set<std::int64_t, std::greater<>> steps;
  for (const std::string& name : names_in(folder)) steps.insert(step_of(name));
  steps.erase(no_step);
  return {steps.begin(), steps.end()};
}

void write_checkpoint(const checkpoint_paths& paths, const model_file& model, training_state state,
                      non_finite_choice non_finite) {
  const std::string unwritten = paths.model.string() + " is not written: ";
  require_finite<non_finite_error>(unwritten + "parameters", model.parameters, non_finite);
  require_finite<non_finite_error>(unwritten + "AdamW's mean gradients", state.moments.m,
                                   non_finite);
  require_finite<non_finite_error>(unwritten + "AdamW's mean squares", state.moments.v, non_finite);
  output_file model_output(paths.model);
  state.model = write_model(model_output, model);
  output_file state_output(paths.state);
  write_state(state_output, state);
  model_output.sync();
  state_output.sync();
  model_output.commit();
  state_output.commit();
}

checkpoint read_checkpoint(const fs::path& path, non_finite_choice non_finite) {
  if (!fs::is_directory(path)) return read_pair(path, non_finite);
  std::vector<std::string> passed_over;
  for (const std::int64_t step : steps_in(path)) {
    try {
      checkpoint found = read_pair(checkpoint_at(path, step).state, non_finite);
      found.passed_over = std::move(passed_over);
      return found;
    } catch (const input_error& error) {
      passed_over.push_back(error.what());
    }
  }
  if (passed_over.empty()) {
    throw input_error(path.string() + ": a folder with a state_*.bin is wanted, got one without");
  }
  throw input_error(path.string() + ": a whole checkpoint is wanted, but none of " +
                    std::to_string(passed_over.size()) +
                    " is; of the latest: " + passed_over.front());
}

void remove_temporaries(const fs::path& folder) {
  for (const std::string& name : names_in(folder)) {
    if (step_of(final_name(name)) != no_step) fs::remove(folder / name);
  }
}

}  // namespace gpt2_trainer
