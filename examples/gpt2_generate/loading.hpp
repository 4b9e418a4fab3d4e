/// @file
/// From a file to a model that continues texts.
#pragma once

#include <cstdint>
#include <memory>

#include "gpt2/generation/generation.hpp"
#include "gpt2/generation/text_codec.hpp"
#include "gpt2/machine/backend.hpp"
#include "gpt2/model/gpt2.hpp"
#include "gpt2/model/text_model.hpp"
#include "options.hpp"

namespace gpt2_trainer {

/// A model on its machine, and what its tokens are.
struct loaded_model {
  text_codec codec;
  std::unique_ptr<backend<float>> machine;
  std::unique_ptr<gpt2<float>> network;  ///< where the machine has no layers for a cache
  std::unique_ptr<text_model> texts;
};

/// For this many texts. What cannot be read or used is an input_error.
loaded_model load(const generate_options& options, std::int64_t texts);

/// How the options want texts to go on.
generation_options generation_of(const generate_options& options, const text_codec& codec);

/// The text as a request. What is drawn depends on the seed, the text and the sample, not on what
/// is continued beside it. An empty text begins as after the end of another one; an input_error
/// where that has no token.
generation_request request_of(const generate_options& options, const text_codec& codec,
                              token_text text, std::int64_t sample);

/// A line on standard error.
void note(const std::string& text);

}  // namespace gpt2_trainer
