/// @file
/// llm.c's debug state: what another program computed on a batch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "gpt2/model/config.hpp"

namespace gpt2_trainer {

struct debug_state {
  std::int64_t batch;
  std::int64_t sequence;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::vector<float> logits;
  std::vector<float> loss;
  std::vector<float> gradients;
};

/// The debug state of a model of these extents. All of the header and the file's size are checked;
/// what is wrong is an input_error.
debug_state read_debug_state(const std::filesystem::path& path, const gpt2_config& config);

/// llm.c's naming: gpt2_124M_debug_state.bin belongs to gpt2_124M.bin.
std::filesystem::path checkpoint_beside(const std::filesystem::path& state);

}  // namespace gpt2_trainer
