/// @file
/// The config.json of a GPT-2 of Hugging Face's: extents, and what must be as llmc computes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpt2/model/config.hpp"

namespace gpt2_trainer {

struct hugging_face_config {
  gpt2_config extents;
  std::optional<std::int64_t> end_of_text;  ///< the token that ends a document
  std::vector<std::string> notes;           ///< what it says and llmc does not do
};

/// What would make another model of the same tensors, such as another activation, is an input_error
/// that names it.
hugging_face_config read_hugging_face_config(const std::filesystem::path& path);

/// The text of a config.json. `end_of_text` is the token that ends a document, if the vocabulary
/// has one.
std::string hugging_face_config_text(const gpt2_config& extents,
                                     std::optional<std::int64_t> end_of_text);

}  // namespace gpt2_trainer
