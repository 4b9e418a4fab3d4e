/// @file
/// What is needed beside a model to go on as if there had been no interruption.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "gpt2/data/dataset.hpp"
#include "gpt2/files/file.hpp"
#include "gpt2/files/finite.hpp"
#include "gpt2/model/gpt2.hpp"

namespace gpt2_trainer {

/// All that training changes except the parameters, which are in the model's file.
struct training_state {
  std::int64_t step = 0;  ///< steps that were done
  loader_state loader;
  std::string data;     ///< the record of the training data's files, as JSON
  std::string model;    ///< checksum of the model's file that this state belongs to
  std::string options;  ///< the run's options, as JSON
  std::string plans;    ///< of its matrix products; empty where they were not tuned
  adamw_moments<float> moments;
};

/// The file is checked by its size and its checksum, and each number by its range; what is wrong is
/// an input_error. docs/file-formats.md has the format.
training_state read_state(const std::filesystem::path& path,
                          non_finite_choice non_finite = non_finite_choice::refuse);
void write_state(output_file& output, const training_state& state);

}  // namespace gpt2_trainer
