/// @file
/// Reads a vocabulary in each form in which GPT-2's is passed on.
#pragma once

#include <filesystem>

#include "gpt2/tokens/vocabulary.hpp"

namespace gpt2_trainer {

/// From `tokenizer.json`, `vocab.json` (with `merges.txt` beside it), `encoder.json` (with
/// `vocab.bpe`), tiktoken's ranks, llm.c's `gpt2_tokenizer.bin` (which only decodes), or a folder
/// with one of them; tokenizer.json comes first. Which it is is known by content, not by name.
/// What is wrong is an input_error with file, place, what was seen and what was wanted.
vocabulary read_vocabulary(const std::filesystem::path& path);

}  // namespace gpt2_trainer
