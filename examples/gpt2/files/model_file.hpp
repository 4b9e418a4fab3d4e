/// @file
/// llm.c's FP32 checkpoint: a model's extents and parameters.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpt2/model/config.hpp"

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

/// The checksum by which a state knows the model that it belongs to.
std::string model_checksum(const std::vector<float>& parameters);

}  // namespace gpt2_trainer
