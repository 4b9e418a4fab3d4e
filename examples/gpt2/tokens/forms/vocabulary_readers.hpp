/// @file
/// A reader for each form of a vocabulary. Which form a file has is known when one is called.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "gpt2/files/file.hpp"
#include "gpt2/tokens/vocabulary.hpp"

namespace gpt2_trainer {

/// The whole file; an input_error if it is larger than any vocabulary.
std::string vocabulary_text(const input_file& from);

/// `tokenizer.json` of Hugging Face's `tokenizers`. A setting with which `tokenizers` would make
/// other tokens than GPT-2's rules do is an input_error that names it.
vocabulary read_tokenizer_json(const input_file& from, const nlohmann::json& tokenizer);

/// An object of ids by token, and the list of merges in another file, one a line.
vocabulary read_vocab_and_merges(const input_file& from, const nlohmann::json& ids,
                                 const input_file& merges);

/// tiktoken's lines of tokens in base64 and their ranks, which say in what order merges apply.
vocabulary read_tiktoken_ranks(const input_file& from, std::string_view text);

/// llm.c's tokenizer, version 1 or 2.
vocabulary read_llm_c_tokenizer(input_file& from);

/// Whether a text begins as one of tiktoken's does.
bool are_tiktoken_ranks(std::string_view text);

}  // namespace gpt2_trainer
