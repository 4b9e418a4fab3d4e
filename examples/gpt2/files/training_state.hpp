/// @file
/// What is needed beside a model to go on as if there had been no interruption.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "gpt2/data/dataset.hpp"
#include "gpt2/model/gpt2.hpp"

namespace gpt2_trainer {

/// All that training changes except the parameters, which are in the model's file.
struct training_state {
  std::int64_t step = 0;  ///< steps that were done
  loader_state loader;
  std::string data;     ///< the record of the training data's files, as JSON
  std::string model;    ///< checksum of the parameters that this state belongs to
  std::string options;  ///< the run's options, as JSON
  std::string plans;    ///< of its matrix products; empty where they were not tuned
  adamw_moments<float> moments;
};

/// A state's file: eight bytes "llmcstat"; the format's version and the length of the description,
/// 32 bits each; the description, JSON; m; v.
training_state read_state(const std::filesystem::path& path);
void write_state(const std::filesystem::path& path, const training_state& state);

}  // namespace gpt2_trainer
