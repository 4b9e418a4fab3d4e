/// @file
/// Text that a model makes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "gpt2/model/gpt2.hpp"
#include "gpt2/run/stop_request.hpp"
#include "gpt2_trainer/options.hpp"

namespace gpt2_trainer {

/// Why there is not always text.
inline constexpr const char* no_tokenizer =
    "their text would need GPT-2's tokenizer, which gpt2_train does not have yet; a model that is "
    "trained on text makes text";

/// How the model, which sees `sequence` tokens, goes on after the prompt: text, or the numbers of
/// tokens where they are not bytes. Drawn anew from seed and step, so a resumed run says what the
/// uninterrupted one would. Nothing, after at most one more token, if the run is to stop.
std::optional<std::string> sample_text(gpt2<float>& model, const run_options& options,
                                       std::int64_t sequence, std::int64_t step,
                                       const stop_request& stop);

/// Throws an input_error if a prompt is given to a model whose tokens are not bytes.
void require_text_model(const gpt2_config& config, const std::string& prompt);

}  // namespace gpt2_trainer
