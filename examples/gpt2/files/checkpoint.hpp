/// @file
/// What a run leaves on the disk: a model, and beside it what else is needed to go on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "gpt2/files/model_file.hpp"
#include "gpt2/files/training_state.hpp"

namespace gpt2_trainer {

/// A model and a state of the same step in one folder.
struct checkpoint_paths {
  std::filesystem::path model;
  std::filesystem::path state;
};

/// `model_00000200.bin` and `state_00000200.bin` in the folder.
checkpoint_paths checkpoint_at(const std::filesystem::path& folder, std::int64_t step);

/// The checkpoint of the latest step in the folder whose state was written, if any. The state is
/// written last, so its model is whole.
std::optional<checkpoint_paths> latest_checkpoint(const std::filesystem::path& folder);

/// Writes both, the model first, each under a temporary name until it is whole.
void write_checkpoint(const checkpoint_paths& paths, const model_file& model,
                      const training_state& state);

/// The checkpoint that a path names: a state file, or the latest in a folder. An input_error if
/// there is none, or if the model beside the state is not the one that the state belongs to.
struct checkpoint {
  checkpoint_paths paths;
  model_file model;
  training_state state;
};
checkpoint read_checkpoint(const std::filesystem::path& path);

}  // namespace gpt2_trainer
