#include "gpt2_trainer/training/measuring.hpp"

#include <utility>
#include <vector>

#include "gpt2/machine/call_profile.hpp"
#include "gpt2/model/operations.hpp"
#include "gpt2_trainer/benchmark.hpp"
#include "gpt2_trainer/profile.hpp"

namespace gpt2_trainer {
namespace {

// What measures saves nothing, so it does not listen for signals: they end the program at once.

/// Runs steps up to `last`. Returns the seconds of each but those of the warm-up.
std::vector<double> time_steps(session& of, std::int64_t last) {
  std::vector<double> seconds;
  const auto keep = [&](const std::optional<finished_step>& step) {
    if (step && step->number > warm_up_steps) seconds.push_back(step->seconds);
  };
  while (of.steps.done() < last) keep(of.steps.next());
  keep(of.steps.finish());
  return seconds;
}

}  // namespace

run_end benchmark(run_setup setup, const stop_request& stop) {
  session of(std::move(setup), stop);
  of.begin();
  const std::vector<double> seconds = time_steps(of, *of.options.steps);
  of.require_sound(1);
  const std::int64_t tokens = *of.options.total_batch;
  const std::int64_t sequence = *of.options.sequence;
  const benchmark_result result{of.setup.machine->description(),
                                of.setup.config,
                                *of.options.batch,
                                sequence,
                                tokens,
                                model_operations(of.setup.config, tokens, sequence),
                                of.setup.machine->peak(),
                                of.steps.model().memory_plan(),
                                seconds};
  of.says.results(benchmark_table(result));
  if (!of.options.benchmark_json.empty()) write_benchmark(of.options.benchmark_json, result);
  return of.end();
}

run_end profile(run_setup setup, const stop_request& stop) {
  const measured_rates ceilings =
      setup.machine->measure_rates();  // before a model takes the memory
  session of(std::move(setup), stop);
  call_profile calls(*of.setup.machine);
  of.begin();
  const std::int64_t last = *of.options.steps;
  const std::vector<double> seconds = time_steps(of, last - *of.options.profile);
  calls.start();
  while (of.steps.done() < last) {
    of.steps.next();
    calls.end_step();
  }
  of.steps.finish();
  of.require_sound(1);
  const profile_result result{
      of.setup.machine->description(), of.setup.config, *of.options.batch, *of.options.sequence,
      *of.options.total_batch,         ceilings,        calls.finish(),    seconds};
  of.says.note(profile_table(result));
  if (!of.options.profile_json.empty()) write_profile(of.options.profile_json, result);
  return of.end();
}

}  // namespace gpt2_trainer
