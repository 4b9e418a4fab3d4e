/// @file
/// Small checkpoints for tests of what reads and writes them.
#pragma once

#include <cstdint>
#include <filesystem>

#include "../support/random.hpp"
#include "gpt2/files/checkpoint.hpp"
#include "gpt2/model/parameters.hpp"

namespace llmc_test {

inline gpt2_trainer::model_file small_model(std::uint32_t seed,
                                            const gpt2_trainer::gpt2_config& config = {6, 10, 128,
                                                                                       2, 3, 12}) {
  return {config, random_normal(gpt2_trainer::parameter_layout(config).count(), seed)};
}

/// A state with moments for that model.
inline gpt2_trainer::training_state small_state(const gpt2_trainer::model_file& model,
                                                std::int64_t step = 200) {
  gpt2_trainer::training_state state;
  state.step = step;
  state.loader = {3, 1, 7};
  state.data = "[]";
  state.options = R"({"seed":42})";
  state.plans = "header\n1 2 3 kernel a\nplans: 1\n";
  const auto count = static_cast<std::int64_t>(model.parameters.size());
  state.moments = {random_normal(count, 8), random_normal(count, 9)};
  for (float& v : state.moments.v) v *= v;
  return state;
}

inline int files_in(const std::filesystem::path& folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace llmc_test
