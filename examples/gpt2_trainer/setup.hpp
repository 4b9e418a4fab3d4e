/// @file
/// From the command line to everything that a run needs, all of it checked, before anything is
/// written.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpt2/files/checkpoint.hpp"
#include "gpt2/hugging_face/stored_model.hpp"
#include "gpt2/machine/backend.hpp"
#include "gpt2/model/config.hpp"
#include "options.hpp"
#include "run_data.hpp"
#include "run_folder.hpp"

namespace gpt2_trainer {

/// What a run goes on from.
struct resumed_run {
  checkpoint latest;
  run_options options;
};

struct run_setup {
  run_options options;  ///< all have values
  run_options saved;    ///< the same, without those that follow from others
  gpt2_config config{};
  run_data data;
  std::unique_ptr<backend<float>> machine;
  std::string machine_note;  ///< why there is no GPU; empty where there is one
  std::string model_source;  ///< the file or folder that the parameters are from; empty: none
  std::optional<stored_model> start;  ///< what --checkpoint names
  checkpoint_paths resumed;           ///< of the run that is resumed, as what follows
  std::vector<float> parameters;
  std::optional<training_state> state;
  run_options before;  ///< all have values
  std::filesystem::path out;
  std::unique_ptr<run_folder> folder;  ///< `out`, as this run's own; null without checkpoints
  std::vector<std::string> notes;      ///< to be said at the beginning
};

/// Throws input_error for any file or option that cannot be used. Then nothing was
/// written; else the folder of the checkpoints, if there are to be any, is there and taken.
run_setup prepare(run_options options, std::optional<resumed_run> resumed);

}  // namespace gpt2_trainer
