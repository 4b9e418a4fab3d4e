/// @file
/// What a run leaves on the disk: a model, and beside it what else is needed to go on.
///
/// Model and state belong together by content: the state holds the checksum of the model's file. A
/// pair is whole if both files have what they are said to have. A new pair gets its names only when
/// both files are on the disk, and no run replaces a whole pair, so whatever fails while one is
/// written, those before it stay.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gpt2/files/finite.hpp"
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

/// The steps of which a folder has a model or a state, by their names, the latest first.
std::vector<std::int64_t> steps_in(const std::filesystem::path& folder);

/// Writes both. Throws std::runtime_error if that fails and non_finite_error if not all numbers are
/// finite, unless that is allowed; then what was there before is there still.
void write_checkpoint(const checkpoint_paths& paths, const model_file& model, training_state state,
                      non_finite_choice non_finite = non_finite_choice::refuse);

struct checkpoint {
  checkpoint_paths paths;
  model_file model;
  training_state state;
  /// The later ones of the folder that are not whole, each with the reason.
  std::vector<std::string> passed_over = {};
};

/// The checkpoint that a path names: a state file, or the latest whole one in a folder. An
/// input_error if there is none.
checkpoint read_checkpoint(const std::filesystem::path& path,
                           non_finite_choice non_finite = non_finite_choice::refuse);

/// Removes what dead runs left that were writing checkpoints into the folder. The caller has the
/// folder for itself.
void remove_temporaries(const std::filesystem::path& folder);

}  // namespace gpt2_trainer
