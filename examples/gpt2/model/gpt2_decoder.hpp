/// @file
/// GPT-2 with a cache of keys and values: each token of a text is computed once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpt2/machine/backend.hpp"
#include "gpt2/machine/decode_layers.hpp"
#include "gpt2/model/config.hpp"
#include "gpt2/model/memory_planner.hpp"
#include "gpt2/model/parameters.hpp"
#include "gpt2/model/text_model.hpp"

namespace gpt2_trainer {

/// Its logits are those of gpt2's forward pass over what is seen of each text. A text's tokens that
/// the cache does not have yet are computed together, many as one pass over many rows, and those of
/// all texts at the same time.
class gpt2_decoder final : public text_model {
 public:
  /// Allocates all memory: a backend with decode layers must outlive this.
  gpt2_decoder(const gpt2_config& config, backend<float>& machine, std::int64_t batch,
               std::int64_t context);
  gpt2_decoder(const gpt2_decoder&) = delete;
  gpt2_decoder& operator=(const gpt2_decoder&) = delete;

  /// In the order of parameter_layout.
  void set_parameters(const std::vector<float>& values);

  std::int64_t context() const override { return context_; }
  std::int64_t batch() const override { return batch_; }
  std::vector<std::vector<float>> logits(const std::vector<const token_text*>& texts) override;

  const std::vector<memory_item>& memory_plan() const { return plan_; }
  /// Rows of all passes so far: how many tokens were computed.
  std::int64_t computed_tokens() const { return computed_tokens_; }

 private:
  struct arrays {
    float* parameters;
    float* keys;    ///< (L, texts, NH, context, HS)
    float* values;  ///< likewise
    std::int32_t* tokens;
    llmc::cache_place* places;
    float* residual;
    float* norm;
    float* mean;
    float* rstd;
    float* qkv;
    float* attention;
    float* branch;
    float* wide;
    float* logits;
  };
  /// A token that is to be computed.
  struct row {
    std::int32_t token;
    llmc::cache_place place;
  };

  const float* parameter_of(parameter p, std::int64_t layer = 0) const;
  std::vector<row> new_rows(const std::vector<const token_text*>& texts);
  void run(const row* rows, std::int64_t count);
  std::vector<std::vector<float>> classify(const std::vector<const token_text*>& texts,
                                           std::int64_t first, std::int64_t rows);

  gpt2_config config_;
  parameter_layout layout_;
  backend<float>& machine_;
  decode_layers<float>& layers_;
  std::int64_t batch_;
  std::int64_t context_;
  std::int64_t most_rows_;  ///< of a pass
  std::vector<memory_item> plan_;
  std::shared_ptr<void> memory_;
  arrays at_{};
  std::vector<token_text> cached_;  ///< of each text: the tokens that the cache has
  std::int64_t computed_tokens_ = 0;
};

}  // namespace gpt2_trainer
