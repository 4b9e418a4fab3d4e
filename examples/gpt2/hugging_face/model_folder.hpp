/// @file
/// A GPT-2 as Hugging Face's programs keep it: config.json, and its tensors in safetensors files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpt2/files/file.hpp"
#include "gpt2/hugging_face/config.hpp"
#include "gpt2/hugging_face/names.hpp"
#include "gpt2/hugging_face/safetensors.hpp"

namespace gpt2_trainer {

inline constexpr const char* safetensors_name = "model.safetensors";
inline constexpr const char* index_name = "model.safetensors.index.json";
inline constexpr const char* config_name = "config.json";

/// Whether the folder has a model of this kind.
bool is_model_folder(const std::filesystem::path& folder);

class model_folder {
 public:
  /// Of a folder, or of a safetensors file with config.json beside it. Checks everything but the
  /// numbers; what is wrong is an input_error.
  explicit model_folder(const std::filesystem::path& path);

  const hugging_face_config& config() const { return config_; }
  /// All files that it is read from.
  const std::vector<std::filesystem::path>& files() const { return paths_; }
  /// The types of its numbers: "F32".
  std::string types() const;

  /// In the order of parameter_layout. They are in memory once, and a few megabytes beside them.
  std::vector<float> parameters() const;

 private:
  /// A tensor in a file of `files_`, and what it is.
  struct part {
    std::size_t file;
    safetensor tensor;
    named_parameter place;
  };

  void open_files(const std::filesystem::path& path);
  void find_parts();
  /// Calls `visit(first, count, numbers)` for bands of the tensor's rows.
  template <class Visit>
  void read_bands(const part& each, Visit visit) const;
  void read(const part& each, float* to) const;
  void compare_head(const part& head, const float* table) const;

  hugging_face_config config_;
  std::vector<std::filesystem::path> paths_;
  std::vector<safetensors_file> files_;
  std::vector<part> parts_;
  std::vector<part> heads_;  ///< one, if the files have it
};

/// Writes model.safetensors.
void write_safetensors(output_file& output, const gpt2_config& config,
                       const std::vector<float>& parameters);

}  // namespace gpt2_trainer
