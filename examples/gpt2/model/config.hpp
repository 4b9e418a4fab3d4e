/// @file
/// The extents of a GPT-2, and how they are checked and chosen.
#pragma once

#include <cstdint>

namespace gpt2_trainer {

struct gpt2_config {
  std::int64_t max_sequence;       ///< maxT: the longest context, rows of wpe
  std::int64_t vocabulary;         ///< V
  std::int64_t padded_vocabulary;  ///< Vp >= V: rows of wte
  std::int64_t layers;             ///< L
  std::int64_t heads;              ///< NH, a divisor of channels
  std::int64_t channels;           ///< C

  std::int64_t head_size() const { return channels / heads; }
};

/// Throws input_error unless the value lies between the two others or is one of them.
void require_extent(const char* name, std::int64_t value, std::int64_t least, std::int64_t most);

/// Throws input_error unless the extents make a model that fits llm.c's checkpoint format.
void validate(const gpt2_config& config);

/// The vocabulary rounded up to the multiple of 128 that the checkpoints use.
std::int64_t padded(std::int64_t vocabulary);

/// GPT-2 of a depth from 6 to 48 layers, context 1024, head size 64. The heads are 6 at depth 6, 12
/// at 12, 16 at 24, 20 at 36 and 25 at 48 (OpenAI's sizes from 12 on); between those depths they
/// are interpolated and rounded down.
gpt2_config from_depth(int depth, std::int64_t vocabulary);

}  // namespace gpt2_trainer
