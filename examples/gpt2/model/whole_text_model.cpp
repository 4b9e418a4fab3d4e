#include "gpt2/model/whole_text_model.hpp"

#include <cstddef>

namespace gpt2_trainer {

std::vector<std::vector<float>> whole_text_model::logits(
    const std::vector<const token_text*>& texts) {
  std::vector<std::vector<float>> result(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i] == nullptr) continue;
    const auto length = static_cast<std::int64_t>(texts[i]->size());
    const std::int64_t first = first_seen(length, context_);
    result[i] = model_.logits_at(texts[i]->data() + first, length - first, length - first - 1);
  }
  return result;
}

}  // namespace gpt2_trainer
