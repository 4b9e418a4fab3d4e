/// @file
/// The extents of a GPT-2, and how they are checked and chosen.
#pragma once

#include <cstdint>
#include <string>

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

/// The model of a name, as llm.c has them, or an input_error.
///
/// dN is a GPT-2 of N layers, context 1024. From 6 to 48 the head size is 64 and the heads are 6 at
/// depth 6, 12 at 12, 16 at 24, 20 at 36 and 25 at 48 (OpenAI's sizes from 12 on); between those
/// depths they are interpolated and rounded down. 60, 72 and 84 are llm.c's own.
///
/// gpt3:cN has the extents of the GPT-3 of N channels, context 2048.
gpt2_config named_config(const std::string& name, std::int64_t vocabulary);

}  // namespace gpt2_trainer
