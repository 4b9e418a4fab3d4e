/// @file
/// The tokens of a block, document by document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "gpt2/documents/document_files.hpp"
#include "gpt2/documents/text_blocks.hpp"
#include "gpt2/tokens/tokenizer.hpp"

namespace gpt2_trainer {

struct block_tokens {
  std::vector<std::int32_t> tokens;
  /// Where in `tokens` documents begin. What is before the first goes on with the last one before.
  std::vector<std::size_t> documents;
  std::int64_t text_bytes = 0;
  std::int64_t skipped_lines = 0;
};

/// An input_error with the file's name and the place if the block is not what the rules want.
block_tokens tokens_of(const text_block& block, const document_file& file,
                       const document_rules& rules, const tokenizer& words);

}  // namespace gpt2_trainer
