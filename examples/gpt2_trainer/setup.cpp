#include "setup.hpp"

#include <algorithm>
#include <utility>

#include "gpt2/data/dataset.hpp"
#include "gpt2/data/text.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/machine/machine.hpp"
#include "gpt2/model/parameters.hpp"
#include "product_plans.hpp"
#include "rules/defaults.hpp"
#include "rules/outputs.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t gpt2_vocabulary = 50257;

/// The extents of a model from scratch.
gpt2_config new_config(const run_options& options, const default_run& defaults, bool text) {
  if (text && options.vocabulary && *options.vocabulary != byte_vocabulary) {
    throw input_error("--vocabulary must be 256 for text, whose tokens are bytes, got " +
                      std::to_string(*options.vocabulary));
  }
  const std::int64_t vocabulary =
      text ? byte_vocabulary : options.vocabulary.value_or(gpt2_vocabulary);
  gpt2_config config = options.init.empty()
                           ? gpt2_config{defaults.context, vocabulary,     padded(vocabulary),
                                         defaults.layers,  defaults.heads, defaults.channels}
                           : named_config(options.init, vocabulary);
  config.layers = options.layers.value_or(config.layers);
  config.heads = options.heads.value_or(config.heads);
  config.channels = options.channels.value_or(config.channels);
  config.max_sequence = options.context.value_or(config.max_sequence);
  validate(config);
  return config;
}

void require_vocabulary(const std::string& source, const gpt2_config& config, bool text) {
  if (text && config.vocabulary != byte_vocabulary) {
    throw input_error(source + ": for text, whose tokens are bytes, the model's vocabulary must " +
                      "be 256, got " + std::to_string(config.vocabulary));
  }
}

/// Gives the setup its model: the resumed one, a file's, or the extents of a new one.
void choose_model(run_setup& setup, std::optional<resumed_run>& resumed,
                  const default_run& defaults, bool text) {
  const run_options& o = setup.options;
  if (resumed) {
    setup.resumed = resumed->latest.paths;
    setup.model_source = setup.resumed.model.string();
    setup.config = resumed->latest.model.config;
    setup.parameters = std::move(resumed->latest.model.parameters);
    setup.state = std::move(resumed->latest.state);
  } else if (!o.checkpoint.empty()) {
    setup.model_source = o.checkpoint;
    setup.start = open_model(o.checkpoint, o.non_finite);
    setup.config = setup.start->config;
    setup.notes.insert(setup.notes.end(), setup.start->notes.begin(), setup.start->notes.end());
  } else {
    setup.config = new_config(o, defaults, text);
  }
  require_vocabulary(setup.model_source, setup.config, text);
}

/// From here on the folder is the run's own.
void take_folder(run_setup& setup, const checkpoint* resumed) {
  setup.folder = setup.options.out.empty() ? run_folder::make_default()
                                           : std::make_unique<run_folder>(setup.out);
  setup.out = setup.folder->path();
  setup.options.out = setup.out.string();
  require_room(setup.out, resumed, setup.state ? setup.state->step : 0);
  if (setup.folder->is_locked()) {
    remove_temporaries(setup.out);
  } else {
    setup.notes.push_back("The file system of " + setup.options.out +
                          " has no locks: see to it that no other run writes there.");
  }
}

/// Gives all options their values.
void choose_options(run_setup& setup, const std::optional<resumed_run>& resumed,
                    const default_run& defaults) {
  run_options& o = setup.options;
  const bool small = o.init.empty() && o.checkpoint.empty();
  choose_defaults(o, setup.config, defaults, small);
  if (resumed) {
    setup.before = resumed->options;
    choose_defaults(setup.before, setup.config, defaults, small);
    setup.before = with_derived(setup.before);
  }
  setup.saved = o;
  o = with_derived(o);
  if (resumed) require_resumable(setup.before, o);
  require_consistent(o, setup.config, setup.state ? setup.state->step : 0);
}

}  // namespace

run_setup prepare(run_options options, std::optional<resumed_run> resumed) {
  run_setup setup;
  setup.options = std::move(options);
  run_options& o = setup.options;
  setup.machine = choose_machine(o.backend, o.precision, setup.machine_note);
  const bool on_gpu = setup.machine_note.empty() && o.backend != backend_choice::cpu;
  const default_run& defaults = on_gpu ? gpu_default : cpu_default;

  if (resumed) {
    for (const std::string& why : resumed->latest.passed_over)
      setup.notes.push_back("Passed over " + why);
  }

  const data_kind kind = kind_of_data(o);
  const bool text = kind == data_kind::text;
  choose_model(setup, resumed, defaults, text);
  choose_options(setup, resumed, defaults);

  const data_record before = setup.state ? data_record_from_json(setup.state->data) : data_record{};
  setup.data = open_data(o, kind, setup.config.vocabulary, before);
  // Made here only for their checks; the training loop makes its own.
  batch_loader loader(*setup.data.training, *o.batch, *o.sequence, o.order, o.seed);
  if (setup.data.validation) {
    evaluation_set(*setup.data.validation, *o.batch, *o.sequence, o.val_batches);
  }
  if (setup.state) {
    require_same(setup.data.name, before, setup.data.training->files());
    loader.restore(setup.state->loader);
  }

  setup.out = o.out.empty() ? fs::current_path() : fs::path(o.out);
  require_outputs(setup);
  if (*o.checkpoint_every > 0) take_folder(setup, resumed ? &resumed->latest : nullptr);
  if (product_tuner* products = setup.machine->products()) load_plans(*products, o, setup.state);

  if (setup.start) setup.parameters = setup.start->parameters();
  if (setup.parameters.empty()) {
    setup.parameters = initialise(parameter_layout(setup.config), o.seed);
  }
  return setup;
}

}  // namespace gpt2_trainer
