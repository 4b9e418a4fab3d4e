#include "gpt2_trainer/training/session.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "gpt2_trainer/product_plans.hpp"
#include "gpt2_trainer/report/settings.hpp"

namespace gpt2_trainer {
session::session(run_setup begun_with, const stop_request& stop_when)
    : setup(std::move(begun_with)),
      options(setup.options),
      stop(stop_when),
      steps(setup),
      says(options.log) {}

void session::begin() {
  if (!setup.machine_note.empty()) {
    says.note("No GPU: training on the CPU reference (" + setup.machine_note + ").");
  }
  for (const std::string& note : setup.notes) says.note(note);
  says.settings(settings_table(setup, steps.windows()), settings_json(setup, steps.windows()));
  if (setup.state) says.resumed(resumption_table(setup), resumption_json(setup));
  says.memory(steps.model().memory_plan());
  product_tuner* const products = setup.machine->products();
  if (products != nullptr && options.plans != no_plans) {
    const std::string tuned = tune_products(*products, options, [this] { steps.rehearse(); });
    if (!tuned.empty()) says.note(tuned + "\n");
  }
}

run_end session::end() {
  return says.is_complete() ? run_end::done : run_end::not_logged;
}

void session::require_sound(int skips) const {
  const int seen = steps.skips_in_a_row();
  if (seen < skips) return;
  throw std::runtime_error("loss or gradient norm was not finite in " + std::to_string(seen) +
                           (seen == 1 ? " step, " : " steps in a row, up to ") + "step " +
                           std::to_string(steps.done()));
}

}  // namespace gpt2_trainer
