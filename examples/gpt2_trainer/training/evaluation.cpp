#include "gpt2_trainer/training/evaluation.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "gpt2/data/dataset.hpp"
#include "gpt2_trainer/report/sample.hpp"

namespace gpt2_trainer {
namespace {

/// What was not finished says so, since nothing else would.
void give_up(session& of, const std::string& what) {
  of.says.note("step " + std::to_string(of.steps.done()) + ": gave up " + what);
}

}  // namespace

bool validate(session& of) {
  if (!of.setup.data.validation) return true;
  const run_options& o = of.options;
  const evaluation_set set(*of.setup.data.validation, *o.batch, *o.sequence, o.val_batches);
  loss_sum total{0, 0};
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (of.stop.is_made()) {
      give_up(of, "the validation after " + std::to_string(i) + " of " +
                      std::to_string(set.size()) + " batches");
      return true;
    }
    const evaluation_batch part = set[i];
    const loss_sum sum =
        of.steps.model().evaluate(part.tokens.data(), part.targets.data(), part.b, part.t);
    total.sum += sum.sum;
    total.tokens += sum.tokens;
  }
  const double loss = total.sum / static_cast<double>(total.tokens);
  of.says.validation(of.steps.done(), loss);
  return std::isfinite(loss);
}

void sample(session& of) {
  const std::int64_t step = of.steps.done();
  const std::optional<std::string> text =
      sample_text(of.steps.model(), of.options, *of.options.sequence, step, of.stop);
  if (!text) return give_up(of, "the sample");
  of.says.sample(step, of.options.prompt, *text);
}

}  // namespace gpt2_trainer
