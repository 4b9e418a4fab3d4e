/// @file
/// Where each parameter lies in the one array that holds them all, in the order of llm.c's
/// checkpoints, and what it holds before training. Gradients and moments are laid out likewise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpt2/model/config.hpp"

namespace gpt2_trainer {

enum class parameter {
  wte,       ///< (Vp, C) token embedding and output head
  wpe,       ///< (maxT, C) position embedding
  ln1w,      ///< (L, C) layernorm before attention
  ln1b,      ///< (L, C)
  qkvw,      ///< (L, 3C, C) queries, keys and values
  qkvb,      ///< (L, 3C)
  attprojw,  ///< (L, C, C) projection after attention
  attprojb,  ///< (L, C)
  ln2w,      ///< (L, C) layernorm before the MLP
  ln2b,      ///< (L, C)
  fcw,       ///< (L, 4C, C) first layer of the MLP
  fcb,       ///< (L, 4C)
  fcprojw,   ///< (L, C, 4C) second layer of the MLP
  fcprojb,   ///< (L, C)
  lnfw,      ///< (C) final layernorm
  lnfb       ///< (C)
};

/// What a parameter holds before training.
enum class initial_value {
  normal,         ///< N(0, 0.02)
  normal_scaled,  ///< N(0, 0.02 / sqrt(2L)): what is added to the residual stream
  zero,
  one
};

struct parameter_tensor {
  const char* name;
  std::int64_t offset;     ///< of its first element in the array of all parameters
  std::int64_t count;      ///< elements over all layers
  std::int64_t per_layer;  ///< elements of one layer; `count` where there are no layers
  std::int64_t padding;    ///< elements at its end that are zero and stay zero
  bool decay;              ///< whether AdamW's weight decay applies: matrices only
  initial_value initial;
};

class parameter_layout {
 public:
  explicit parameter_layout(const gpt2_config& config);

  const parameter_tensor& operator[](parameter p) const {
    return tensors_[static_cast<std::size_t>(p)];
  }
  auto begin() const { return tensors_.begin(); }
  auto end() const { return tensors_.end(); }

  /// The number of all parameters, padding included.
  std::int64_t count() const { return count_; }
  std::int64_t layers() const { return layers_; }

 private:
  std::array<parameter_tensor, 16> tensors_;
  std::int64_t count_;
  std::int64_t layers_;
};

/// GPT-2's initialisation. Each number is a function of the seed and its own place, so every
/// machine makes the same, on any number of cores.
std::vector<float> initialise(const parameter_layout& layout, std::uint64_t seed);

}  // namespace gpt2_trainer
