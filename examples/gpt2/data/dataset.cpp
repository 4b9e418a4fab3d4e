#include "gpt2/data/dataset.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "gpt2/input_error.hpp"
#include "gpt2/model/random.hpp"

namespace gpt2_trainer {
namespace {

/// 0, 1, ..., count - 1 in an order drawn by Fisher and Yates.
std::vector<std::int64_t> shuffled(std::int64_t count, random_sequence random) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
  return order;
}

std::string first_name(const token_source& source) {
  const std::size_t others = source.shards().size() - 1;
  return source.name(0) + (others == 0 ? "" : " and " + std::to_string(others) + " more");
}

[[noreturn]] void reject(const std::string& name, const std::string& wanted, std::int64_t least,
                         std::int64_t seen) {
  throw input_error(name + ": " + wanted + " = " + std::to_string(least) +
                    " tokens are wanted, got " + std::to_string(seen));
}

}  // namespace

batch_loader::batch_loader(const token_source& source, std::int64_t batch, std::int64_t sequence,
                           token_order order, std::uint64_t seed)
    : source_(source),
      batch_(batch),
      sequence_(sequence),
      order_(order),
      seed_(seed),
      buffer_(static_cast<std::size_t>(sequence + 1)) {
  const auto shards = static_cast<std::int64_t>(source.shards().size());
  for (std::size_t shard = 0; shard < source.shards().size(); ++shard) {
    const std::int64_t tokens = source.shards()[shard];
    if (tokens <= sequence && shards > 1) {
      reject(source.name(shard), "at least sequence + 1", sequence + 1, tokens);
    }
  }
  // A shard's first token is never a target.
  if (source.tokens() - shards < batch * sequence) {
    reject(first_name(source), "at least batch * sequence + 1", batch * sequence + shards,
           source.tokens());
  }
  begin_shard();
}

std::int64_t batch_loader::windows_of(std::size_t shard) const {
  return (source_.shards()[shard] - 1 + sequence_ - 1) / sequence_;
}

std::int64_t batch_loader::windows() const {
  std::int64_t sum = 0;
  for (std::size_t shard = 0; shard < source_.shards().size(); ++shard) sum += windows_of(shard);
  return sum;
}

void batch_loader::begin_shard() {
  shard_ = static_cast<std::size_t>(state_.shard);
  if (order_ == token_order::sequential) return;
  const auto shards = static_cast<std::int64_t>(source_.shards().size());
  shard_ = static_cast<std::size_t>(
      shuffled(shards, random_sequence(seed_, state_.epoch))[static_cast<std::size_t>(shard_)]);
  windows_ = shuffled(windows_of(shard_), random_sequence(seed_, state_.epoch, shard_));
}

void batch_loader::go_to(const loader_state& state) {
  state_ = state;
  begin_shard();
}

void batch_loader::advance() {
  if (++state_.window < windows_of(shard_)) return;
  state_.window = 0;
  if (++state_.shard == static_cast<std::int64_t>(source_.shards().size())) {
    state_.shard = 0;
    ++state_.epoch;
  }
  begin_shard();
}

void batch_loader::next(std::int32_t* tokens, std::int32_t* targets) {
  const loader_state before = state_;
  try {
    fill(tokens, targets);
  } catch (...) {
    go_to(before);
    throw;
  }
}

void batch_loader::fill(std::int32_t* tokens, std::int32_t* targets) {
  for (std::int64_t row = 0; row < batch_; ++row, advance()) {
    const std::int64_t window =
        windows_.empty() ? state_.window : windows_[static_cast<std::size_t>(state_.window)];
    const std::int64_t last = source_.shards()[shard_] - (sequence_ + 1);
    source_.read(buffer_.data(), shard_, std::min(window * sequence_, last), sequence_ + 1);
    std::copy(buffer_.begin(), buffer_.end() - 1, tokens + row * sequence_);
    std::copy(buffer_.begin() + 1, buffer_.end(), targets + row * sequence_);
  }
}

void batch_loader::restore(const loader_state& state) {
  const auto require = [](const char* what, std::int64_t most, std::int64_t seen) {
    if (seen >= 0 && seen <= most) return;
    throw input_error("the saved place in the data must be " + std::string(what) + " 0 to " +
                      std::to_string(most) + ", got " + std::to_string(seen));
  };
  // More epochs than any run has, and far from where their number would overflow.
  require("epoch", std::int64_t{1} << 53, state.epoch);
  require("shard", static_cast<std::int64_t>(source_.shards().size()) - 1, state.shard);
  const loader_state before = state_;
  go_to(state);
  try {
    require("window", windows_of(shard_) - 1, state.window);
  } catch (...) {
    go_to(before);
    throw;
  }
}

evaluation_set::evaluation_set(const token_source& source, std::int64_t batch,
                               std::int64_t sequence, std::int64_t batches)
    : source_(source) {
  for (std::size_t shard = 0; shard < source.shards().size(); ++shard) {
    const std::int64_t targets = source.shards()[shard] - 1;
    for (std::int64_t at = 0; at < targets;) {
      if (batches > 0 && static_cast<std::int64_t>(places_.size()) == batches) return;
      const std::int64_t rows = std::min(batch, (targets - at) / sequence);
      places_.push_back(
          {shard, at, std::max<std::int64_t>(rows, 1), rows > 0 ? sequence : targets - at});
      at += places_.back().b * places_.back().t;
    }
  }
  if (places_.empty())
    reject(first_name(source), "for validation at least 1 + 1", 2, source.tokens());
}

evaluation_batch evaluation_set::operator[](std::size_t index) const {
  const place& at = places_[index];
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(at.b * at.t + 1));
  source_.read(tokens.data(), at.shard, at.offset, at.b * at.t + 1);
  evaluation_batch batch{at.b, at.t, {}, {tokens.begin() + 1, tokens.end()}};
  tokens.pop_back();
  batch.tokens = std::move(tokens);
  return batch;
}

}  // namespace gpt2_trainer
