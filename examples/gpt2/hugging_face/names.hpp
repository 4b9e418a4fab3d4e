/// @file
/// Hugging Face's names of a GPT-2's tensors, and where their numbers lie in the parameters.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpt2/model/config.hpp"

namespace gpt2_trainer {

/// A tensor as its file has it. Weights of linear layers are (in, out) there, ours are (out, in).
struct named_parameter {
  std::string name;  ///< without prefix: "h.0.attn.c_attn.weight"
  std::vector<std::int64_t> shape;
  std::int64_t offset;  ///< in the array of all parameters
  bool transposed;

  std::int64_t rows() const { return shape.front(); }
  std::int64_t columns() const { return shape.size() == 2 ? shape[1] : 1; }
};

/// All of them, in the order of the model.
std::vector<named_parameter> named_parameters(const gpt2_config& config);

/// What names begin with in the files of models that have a head.
inline constexpr std::string_view name_prefix = "transformer.";
/// The head that is the token embedding.
inline constexpr std::string_view head_name = "lm_head.weight";

/// Masks that some files have among the parameters.
bool is_mask(std::string_view name);

}  // namespace gpt2_trainer
