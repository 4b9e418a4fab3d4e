#include "gpt2/evaluation/perplexity.hpp"

#include <algorithm>
#include <cmath>

namespace gpt2_trainer {

std::optional<scored_row> window_walk::next() {
  for (; shard_ < source_.shards().size(); ++shard_, window_ = 0) {
    const std::int64_t last = source_.shards()[shard_] - 1;
    // Of the windows that a stride leads to, those before this one have scored up to `done`.
    const std::int64_t begin = window_ * stride_;
    const std::int64_t done = window_ == 0 ? 0 : std::min(begin - stride_ + sequence_, last);
    if (done >= last) continue;
    const std::int64_t end = std::min(begin + sequence_, last);
    scored_row row{std::vector<std::int32_t>(static_cast<std::size_t>(end + 1 - begin)),
                   done + 1 - begin};
    source_.read(row.tokens.data(), shard_, begin, end + 1 - begin);
    ++window_;
    return row;
  }
  return std::nullopt;
}

std::int64_t scored_tokens(const token_source& source) {
  std::int64_t sum = 0;
  for (const std::int64_t tokens : source.shards()) sum += std::max<std::int64_t>(tokens - 1, 0);
  return sum;
}

double prediction::mean_loss() const {
  return loss / static_cast<double>(tokens);
}

double prediction::perplexity() const {
  return std::exp(mean_loss());
}

std::optional<double> prediction::bits_per_byte() const {
  if (bytes.value_or(0) == 0) return std::nullopt;
  return loss / std::log(2.0) / static_cast<double>(*bytes);
}

template <class Real>
prediction predict(gpt2<Real>& model, std::int64_t batch, window_walk windows,
                   const bytes_of_tokens& bytes,
                   const std::function<void(std::int64_t)>& progress) {
  prediction result;
  if (!bytes.empty()) result.bytes = 0;
  score_rows<Real>(
      model, batch, [&] { return windows.next(); },
      [&](const scored_row& row, const Real* losses) {
        for (std::int64_t i = 0; i < row.scored(); ++i) {
          result.loss += static_cast<double>(losses[i]);
          const std::int32_t token = row.tokens[static_cast<std::size_t>(row.first + i)];
          if (result.bytes) *result.bytes += bytes[static_cast<std::size_t>(token)];
        }
        result.tokens += row.scored();
        progress(result.tokens);
      });
  return result;
}

template prediction predict(gpt2<float>&, std::int64_t, window_walk, const bytes_of_tokens&,
                            const std::function<void(std::int64_t)>&);
template prediction predict(gpt2<double>&, std::int64_t, window_walk, const bytes_of_tokens&,
                            const std::function<void(std::int64_t)>&);

}  // namespace gpt2_trainer
