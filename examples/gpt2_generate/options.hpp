/// @file
/// What gpt2_generate can be told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <llmc/types.hpp>

#include "gpt2/machine/machine.hpp"

namespace gpt2_trainer {

struct generate_options {
  std::string model;
  std::string tokenizer;

  std::optional<std::string> prompt;
  std::string prompt_file;
  std::string prompts;
  std::string prompts_json;
  bool interactive = false;

  double temperature = 0.7;
  std::int64_t top_k = 40;
  double top_p = 1;
  double repetition_penalty = 1;
  std::int64_t seed = 42;

  std::int64_t length = 256;
  std::int64_t samples = 1;
  std::string stop;
  std::string end_of_text;

  bool echo = false;
  bool json = false;
  bool timing = false;

  std::int64_t batch = 16;
  backend_choice backend = backend_choice::automatic;
  llmc::precision precision = llmc::precision::ieee;
};

struct parsed_generate_options {
  generate_options options;
  std::optional<std::string> help;  ///< the text that answers --help or --version
};

/// A bad option is an input_error.
parsed_generate_options parse_generate_options(int argc, const char* const* argv);

}  // namespace gpt2_trainer
