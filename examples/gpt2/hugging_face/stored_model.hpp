/// @file
/// A model that the user names, in whichever form: all programs open one here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpt2/files/finite.hpp"
#include "gpt2/model/config.hpp"

namespace gpt2_trainer {

struct stored_model {
  gpt2_config config{};
  std::string kind;                          ///< "a Hugging Face model (F32)"
  std::vector<std::string> notes;            ///< what has to be said about it
  std::vector<std::filesystem::path> files;  ///< all that it is read from
  std::optional<std::int64_t> end_of_text;   ///< the token that ends a document, if it is known
  std::filesystem::path tokenizer;           ///< where its tokenizer is; empty: not known
  /// In the order of parameter_layout. Reads them now; what is wrong with them is an input_error.
  /// To be called once.
  std::function<std::vector<float>()> parameters;
};

/// A checkpoint of llm.c's, in FP32 or BF16; a safetensors file with its config.json beside it; a
/// folder with such files, or the folder of a run, which means its latest whole checkpoint. What is
/// none of these, or not whole, is an input_error, also numbers that are not finite where these are
/// refused.
stored_model open_model(const std::filesystem::path& path,
                        non_finite_choice non_finite = non_finite_choice::refuse);

}  // namespace gpt2_trainer
