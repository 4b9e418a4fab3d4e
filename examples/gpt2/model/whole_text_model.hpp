/// @file
/// Continuing texts with nothing but the forward pass of training.
#pragma once

#include "gpt2/model/gpt2.hpp"
#include "gpt2/model/text_model.hpp"

namespace gpt2_trainer {

/// Computes every text as a whole for each token, one text after another.
class whole_text_model final : public text_model {
 public:
  /// The model must outlive this. It sees `context` tokens, at most as many as the model was made
  /// for.
  whole_text_model(gpt2<float>& model, std::int64_t context) : model_(model), context_(context) {}

  std::int64_t context() const override { return context_; }
  std::int64_t batch() const override { return 1; }
  std::vector<std::vector<float>> logits(const std::vector<const token_text*>& texts) override;

 private:
  gpt2<float>& model_;
  std::int64_t context_;
};

}  // namespace gpt2_trainer
