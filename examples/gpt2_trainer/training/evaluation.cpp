#include "gpt2_trainer/training/evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "gpt2/data/dataset.hpp"
#include "gpt2/machine/machine.hpp"
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

run_end sample(const run_options& o, checkpoint from, const stop_request& stop) {
  const gpt2_config& config = from.model.config;
  require_text_model(config, o.prompt);
  std::string note;
  const auto machine = choose_machine(o.backend, o.precision, note);
  const std::int64_t sequence =
      std::min(o.sequence.value_or(config.max_sequence), config.max_sequence);
  gpt2<float> model(config, *machine, 1, sequence);
  model.set_parameters(from.model.parameters);

  report says(o.log);
  for (const std::string& why : from.passed_over) says.note("Passed over " + why);
  says.results({{"machine", machine->description() + (note.empty() ? "" : " (" + note + ")")},
                {"model", from.paths.model.string()}});
  const std::int64_t step = from.state.step;
  const std::optional<std::string> text = sample_text(model, o, sequence, step, stop);
  if (!text) return run_end::stopped;
  says.sample(step, o.prompt, *text);
  return says.is_complete() ? run_end::done : run_end::not_logged;
}

}  // namespace gpt2_trainer
