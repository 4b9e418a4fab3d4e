/// @file
/// llm.c's checkpoint: a model's extents and parameters, in FP32, or, to be read only, in BF16.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpt2/files/file.hpp"
#include "gpt2/files/finite.hpp"
#include "gpt2/model/config.hpp"

namespace gpt2_trainer {

struct model_file {
  gpt2_config config;
  std::vector<float> parameters;  ///< in the order of parameter_layout
  /// Of header and parameters, which are all bytes of an FP32 file: by it a state knows its model.
  std::string checksum = {};
};

struct model_summary {
  gpt2_config config;
  number_type type;  ///< of the numbers in the file
};

/// What a checkpoint of llm.c's is. All of the header and the file's size are checked; what is
/// wrong is an input_error.
model_summary read_model_summary(const std::filesystem::path& path);
model_file read_model(const std::filesystem::path& path,
                      non_finite_choice non_finite = non_finite_choice::refuse);

/// Returns the checksum of the file's bytes.
std::string write_model(output_file& output, const model_file& model);
void write_model(const std::filesystem::path& path, const model_file& model);

}  // namespace gpt2_trainer
