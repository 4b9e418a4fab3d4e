/// @file
/// The files that transformers makes a model's tokenizer of.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gpt2_trainer {

struct tokenizer_file {
  std::filesystem::path from;
  std::string name;  ///< that transformers looks for
};

/// Those of a folder, or the file and what belongs to it beside it; none where it lacks
/// tokenizer.json and vocab.json with merges.txt. OpenAI's encoder.json and vocab.bpe are the
/// latter by other names.
std::vector<tokenizer_file> tokenizer_files(const std::filesystem::path& path);

}  // namespace gpt2_trainer
