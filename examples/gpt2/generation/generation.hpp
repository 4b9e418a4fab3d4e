/// @file
/// Continuing texts token by token.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gpt2/model/random.hpp"
#include "gpt2/model/sampling.hpp"
#include "gpt2/model/text_model.hpp"

namespace gpt2_trainer {

/// A text that is to go on, and the numbers by which its tokens are drawn.
struct generation_request {
  token_text prompt;
  random_sequence random;
};

struct generation_options {
  sampling_options sampling;
  std::int64_t length;                                     ///< the most tokens of each text
  std::optional<std::int32_t> end_of_text = std::nullopt;  ///< the token that ends a text
  std::optional<std::int64_t> vocabulary = std::nullopt;  ///< tokens from this one on are not drawn
};

/// Why a text ended.
enum class text_end {
  length,       ///< it has as many tokens as were wanted
  end_of_text,  ///< the model ended it
  stop          ///< the receiver wanted no more
};

constexpr const char* to_string(text_end end) {
  switch (end) {
    case text_end::length: return "length";
    case text_end::end_of_text: return "end_of_text";
    case text_end::stop: return "stop";
  }
  return "unknown";
}

/// Who is told how texts go on. `text` is the place of its request.
class text_receiver {
 public:
  virtual ~text_receiver() = default;

  /// Whether there is to be another step; asked before each.
  virtual bool goes_on() { return true; }
  /// Returns whether the text is to go on. The token that ends a text does not come here.
  virtual bool on_token(std::size_t text, std::int32_t token) = 0;
  virtual void on_end(std::size_t text, text_end end) = 0;
};

/// Continues as many of the texts at a time as the model can, in the order of the requests. What a
/// text becomes depends on its own request alone. Returns whether all texts ended: false where the
/// receiver did not go on.
bool generate(text_model& model, const std::vector<generation_request>& requests,
              const generation_options& options, text_receiver& receiver);

}  // namespace gpt2_trainer
