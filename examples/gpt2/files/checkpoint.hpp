/// @file
/// What a run leaves on the disk: llm.c's checkpoint of the model, and beside it what else is
/// needed to go on as if there had been no interruption.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpt2/data/dataset.hpp"
#include "gpt2/model/config.hpp"
#include "gpt2/model/gpt2.hpp"

namespace gpt2_trainer {

struct model_file {
  gpt2_config config;
  std::vector<float> parameters;  ///< in the order of parameter_layout
};

/// The extents of an FP32 checkpoint of llm.c's. All of the header and the file's size are checked;
/// what is wrong is an input_error.
gpt2_config read_model_config(const std::filesystem::path& path);
model_file read_model(const std::filesystem::path& path);
void write_model(const std::filesystem::path& path, const model_file& model);

/// All that training changes except the parameters, which are in the model's file.
struct training_state {
  std::int64_t step = 0;  ///< steps that were done
  loader_state loader;
  std::string data;     ///< fingerprint of the training tokens
  std::string model;    ///< checksum of the parameters that this state belongs to
  std::string options;  ///< the run's options, as JSON
  std::string plans;    ///< of its matrix products; empty where they were not tuned
  adamw_moments<float> moments;
};

/// The checksum that ties a state to its model.
std::string model_checksum(const std::vector<float>& parameters);

/// A state's file: eight bytes "llmcstat"; the format's version and the length of the description,
/// 32 bits each; the description, JSON; m; v.
training_state read_state(const std::filesystem::path& path);
void write_state(const std::filesystem::path& path, const training_state& state);

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

/// The checkpoint that a path names: a state file, or a folder's latest. An input_error if there is
/// none, or if the model beside the state is not the one it belongs to.
struct checkpoint {
  checkpoint_paths paths;
  model_file model;
  training_state state;
};
checkpoint read_checkpoint(const std::filesystem::path& path);

}  // namespace gpt2_trainer
