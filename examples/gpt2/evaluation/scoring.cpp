#include "gpt2/evaluation/scoring.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <llmc/types.hpp>

namespace gpt2_trainer {
namespace {

/// Up to that many rows; fewer where there are no more.
std::vector<scored_row> take(std::int64_t most,
                             const std::function<std::optional<scored_row>()>& next) {
  std::vector<scored_row> rows;
  while (static_cast<std::int64_t>(rows.size()) < most) {
    std::optional<scored_row> row = next();
    if (!row) break;
    rows.push_back(std::move(*row));
  }
  return rows;
}

/// Inputs of the longest row: its last token is only a target.
std::size_t longest(const std::vector<scored_row>& rows) {
  std::size_t length = 0;
  for (const scored_row& row : rows) length = std::max(length, row.tokens.size() - 1);
  return length;
}

}  // namespace

template <class Real>
void score_rows(gpt2<Real>& model, std::int64_t batch,
                const std::function<std::optional<scored_row>()>& next,
                const std::function<void(const scored_row&, const Real* losses)>& use) {
  for (;;) {
    const std::vector<scored_row> rows = take(batch, next);
    if (rows.empty()) return;
    const std::size_t length = longest(rows);
    std::vector<std::int32_t> tokens(rows.size() * length, 0);
    std::vector<std::int32_t> targets(tokens.size(), llmc::ignored_target);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const scored_row& row = rows[i];
      const auto at = static_cast<std::ptrdiff_t>(i * length);
      std::copy(row.tokens.begin(), row.tokens.end() - 1, tokens.begin() + at);
      std::copy(row.tokens.begin() + row.first, row.tokens.end(),
                targets.begin() + at + row.first - 1);
    }
    const std::vector<Real> losses =
        model.losses(tokens.data(), targets.data(), static_cast<std::int64_t>(rows.size()),
                     static_cast<std::int64_t>(length));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      use(rows[i], losses.data() + i * length + rows[i].first - 1);
    }
  }
}

template void score_rows(gpt2<float>&, std::int64_t,
                         const std::function<std::optional<scored_row>()>&,
                         const std::function<void(const scored_row&, const float*)>&);
template void score_rows(gpt2<double>&, std::int64_t,
                         const std::function<std::optional<scored_row>()>&,
                         const std::function<void(const scored_row&, const double*)>&);

}  // namespace gpt2_trainer
