/// @file
/// The header that all of llm.c's files begin with: 256 integers. The first two say what the file
/// is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpt2/files/file.hpp"

namespace gpt2_trainer {

using file_header = std::array<std::int32_t, 256>;
inline constexpr std::int64_t header_bytes = sizeof(file_header);

struct file_kind {
  const char* name;  ///< as messages call it: "an llm.c token shard"
  std::int32_t magic;
  std::int32_t version;
};

inline constexpr file_kind model_kind{"an llm.c FP32 checkpoint", 20240326, 3};
inline constexpr file_kind bf16_model_kind{"an llm.c BF16 checkpoint", 20240326, 5};
inline constexpr file_kind debug_state_kind{"an llm.c debug state", 20240327, 2};
inline constexpr file_kind first_tokenizer_kind{"llm.c's tokenizer", 20240328, 1};
inline constexpr file_kind tokenizer_kind{"llm.c's tokenizer", 20240328, 2};
inline constexpr file_kind shard_kind{"an llm.c token shard", 20240520, 1};
inline constexpr file_kind wide_shard_kind{"an llm.c token shard of 32 bits", 20240801, 7};
inline constexpr file_kind choices_kind{"an llm.c file of multiple choice", 20240522, 1};

/// Whether the file begins with the kind's magic number and has room for a header.
bool has_magic(const input_file& file, const file_kind& kind);
/// Whether it has the kind's version, too.
bool has_kind(const input_file& file, const file_kind& kind);

/// The header, or an input_error if the file is too short for one or is of another kind.
file_header read_header(input_file& file, const file_kind& kind);

/// A header that holds these extents after magic number and version.
file_header make_header(const file_kind& kind, const std::vector<std::int64_t>& extents);

}  // namespace gpt2_trainer
