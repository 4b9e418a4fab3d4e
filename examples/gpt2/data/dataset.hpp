/// @file
/// The order in which training and validation see the tokens of a source.
///
/// The unit is the window: T + 1 neighbouring tokens of one shard, the first T of which are inputs
/// and the last T their targets. Windows follow each other at a distance of T, so that each token
/// of a shard is used in every epoch; the last window of a shard ends with its last token.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpt2/data/token_source.hpp"

namespace gpt2_trainer {

enum class token_order {
  shuffled,   ///< shards, and windows within a shard, in an order that is drawn for each epoch
  sequential  ///< as they lie in the files
};

constexpr const char* to_string(token_order order) {
  switch (order) {
    case token_order::shuffled: return "shuffled";
    case token_order::sequential: return "sequential";
  }
  return "unknown";
}

inline constexpr std::array token_orders{token_order::shuffled, token_order::sequential};

/// Where a loader stands. Shard and window are places in the epoch's order.
struct loader_state {
  std::int64_t epoch = 0;
  std::int64_t shard = 0;
  std::int64_t window = 0;
};

/// Training batches without end: when all windows are used, the next epoch begins, within a batch
/// if need be. The order is a function of the seed.
class batch_loader {
 public:
  /// The source must outlive the loader. Throws input_error if a shard has less than T + 1 tokens,
  /// or if all shards together have less than one batch.
  batch_loader(const token_source& source, std::int64_t batch, std::int64_t sequence,
               token_order order, std::uint64_t seed);

  /// The next B * T inputs and targets. If they cannot be read the loader stays where it was.
  void next(std::int32_t* tokens, std::int32_t* targets);

  const loader_state& state() const { return state_; }
  /// Goes on from there. An input_error if the data have no such place.
  void restore(const loader_state& state);
  /// Windows in an epoch.
  std::int64_t windows() const;

 private:
  std::int64_t windows_of(std::size_t shard) const;
  void begin_shard();
  void go_to(const loader_state& state);
  void advance();
  void fill(std::int32_t* tokens, std::int32_t* targets);

  const token_source& source_;
  std::int64_t batch_;
  std::int64_t sequence_;
  token_order order_;
  std::uint64_t seed_;
  loader_state state_;
  std::size_t shard_ = 0;              // the shard at place state_.shard of this epoch
  std::vector<std::int64_t> windows_;  // the order of its windows; empty if sequential
  std::vector<std::int32_t> buffer_;
};

/// A part of the validation tokens: b rows of t inputs and targets.
struct evaluation_batch {
  std::int64_t b;
  std::int64_t t;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
};

/// The same batches each time, from the first token on. Each target counts once: where a shard's
/// tokens are no multiple of T, its last window is shorter and a batch of its own.
class evaluation_set {
 public:
  /// At most `batches` batches; 0: all. The source must outlive the set.
  evaluation_set(const token_source& source, std::int64_t batch, std::int64_t sequence,
                 std::int64_t batches);

  std::size_t size() const { return places_.size(); }
  evaluation_batch operator[](std::size_t index) const;

 private:
  struct place {
    std::size_t shard;
    std::int64_t offset;
    std::int64_t b;
    std::int64_t t;
  };
  const token_source& source_;
  std::vector<place> places_;
};

}  // namespace gpt2_trainer
