/// @file
/// llm.c's FP32 checkpoint: a model's extents and parameters.
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
  /// Of all bytes of the file that this was read from: by it a state knows its model.
  std::string checksum = {};
};

/// The extents of an FP32 checkpoint of llm.c's. All of the header and the file's size are checked;
/// what is wrong is an input_error.
gpt2_config read_model_config(const std::filesystem::path& path);
model_file read_model(const std::filesystem::path& path,
                      non_finite_choice non_finite = non_finite_choice::refuse);

/// Returns the checksum of the file's bytes.
std::string write_model(output_file& output, const model_file& model);
void write_model(const std::filesystem::path& path, const model_file& model);

}  // namespace gpt2_trainer
