#include "setup.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "gpt2/data/dataset.hpp"
#include "gpt2/data/text.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/machine/machine.hpp"
#include "gpt2/model/parameters.hpp"
#include "product_plans.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

/// What a run without options does. The run for the CPU was chosen by measuring: of the models and
/// batches that train for about 70 seconds on two cores, it reached the lowest validation loss by
/// far. Wider models see too little of the text in that time.
struct default_run {
  std::int64_t layers;
  std::int64_t heads;
  std::int64_t channels;
  std::int64_t context;
  std::int64_t batch;
  std::int64_t steps;
};
constexpr default_run cpu_default{2, 4, 64, 64, 16, 850};
constexpr default_run gpu_default{6, 6, 384, 256, 16, 600};
constexpr std::int64_t large_model_batch = 4;
constexpr std::int64_t gpt2_vocabulary = 50257;

fs::path default_folder(int number) {
  return number == 1 ? "llmc-run" : "llmc-run-" + std::to_string(number);
}

int depth_of(const std::string& init) {
  const bool number =
      init.size() >= 2 && init.size() <= 3 && init[0] == 'd' &&
      std::all_of(init.begin() + 1, init.end(), [](char c) { return c >= '0' && c <= '9'; });
  const int depth = number ? std::stoi(init.substr(1)) : 0;
  if (depth < 6 || depth > 48) throw input_error("--init must be d6 to d48, got " + init);
  return depth;
}

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
                           : from_depth(depth_of(options.init), vocabulary);
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

template <class Value>
void set_default(std::optional<Value>& option, Value value) {
  if (!option) option = value;
}

/// The peak learning rate that suits a model of this width: 3e-4 for GPT-2 124M, and for narrower
/// models more, as measured down to 64 channels.
double default_learning_rate(std::int64_t channels) {
  return 3e-4 * std::pow(768 / static_cast<double>(channels), 4.0 / 3);
}

/// Gives every optional number its value.
void complete(run_options& o, const gpt2_config& config, const default_run& defaults,
              bool default_batch) {
  if (only_measures(o)) {
    // A profile times as many steps by themselves as with their calls timed.
    o.steps = warm_up_steps + (o.benchmark ? *o.benchmark : 2 * *o.profile);
    o.val_every = o.sample_every = o.checkpoint_every = 0;
  }
  set_default(o.sequence, config.max_sequence);
  set_default(o.batch, default_batch ? defaults.batch : large_model_batch);
  set_default(o.total_batch, *o.batch * *o.sequence);
  set_default(o.steps, defaults.steps);
  set_default(o.lr, default_learning_rate(config.channels));
  set_default(o.min_lr, *o.lr / 10);
  set_default(o.warmup, std::min<std::int64_t>(*o.steps / 10, 700));
  set_default(o.val_every, (*o.steps + 3) / 4);
  set_default(o.sample_every, *o.steps);
  set_default(o.checkpoint_every, *o.steps);
}

/// The rules between options.
void require_consistent(const run_options& o, const gpt2_config& config, std::int64_t done) {
  const auto require = [](bool fine, const std::string& wanted, auto seen) {
    if (!fine) throw input_error(wanted + ", got " + std::to_string(seen));
  };
  require(
      *o.sequence <= config.max_sequence,
      "--sequence must be at most the model's context of " + std::to_string(config.max_sequence),
      *o.sequence);
  require(*o.total_batch % (*o.batch * *o.sequence) == 0,
          "--total-batch must be a multiple of batch * sequence = " +
              std::to_string(*o.batch * *o.sequence),
          *o.total_batch);
  require(*o.min_lr <= *o.lr, "--min-lr must be at most --lr = " + std::to_string(*o.lr),
          *o.min_lr);
  require(*o.warmup <= *o.steps, "--warmup must be at most --steps = " + std::to_string(*o.steps),
          *o.warmup);
  require(*o.steps > done,
          "--steps must be more than the " + std::to_string(done) + " that are done", *o.steps);
}

/// The nearest folder that exists on the way to this one.
fs::path existing_ancestor(fs::path path) {
  path = fs::absolute(path).lexically_normal();
  while (!fs::exists(path) && path.has_parent_path() && path != path.parent_path()) {
    path = path.parent_path();
  }
  return path;
}

void require_writable(const fs::path& folder, const std::string& option) {
  const fs::path ancestor = existing_ancestor(folder);
  if (!fs::is_directory(ancestor)) {
    throw input_error(option + " must lie in a folder, but " + ancestor.string() + " is a file");
  }
  if (::access(ancestor.c_str(), W_OK | X_OK) != 0) {
    throw input_error(option + " must be writable, but " + ancestor.string() +
                      " is not: " + std::strerror(errno));
  }
}

void require_space(const fs::path& folder, std::int64_t parameters) {
  // A model, and a state with two moments; a little more for their headers.
  const std::uintmax_t wanted = static_cast<std::uintmax_t>(parameters) * 3 * sizeof(float) + 8192;
  std::error_code unknown;
  const std::uintmax_t free = fs::space(existing_ancestor(folder), unknown).available;
  if (!unknown && free < wanted) {
    throw input_error("--out: a checkpoint needs " + std::to_string(wanted) + " bytes, but " +
                      folder.string() + " has room for " + std::to_string(free));
  }
}

/// Requires that this file can be written, if it is named.
void require_file(const std::string& path, const std::string& option) {
  if (path.empty()) return;
  if (fs::is_directory(path)) throw input_error(option + " must be a file, got folder " + path);
  require_writable(fs::path(path).parent_path(), option);
}

void require_output(const run_setup& setup) {
  const run_options& o = setup.options;
  if (*o.checkpoint_every > 0) {
    require_writable(setup.out, "--out");
    require_space(setup.out, parameter_layout(setup.config).count());
    if (!setup.state && latest_checkpoint(setup.out)) {
      throw input_error(
          "--out must be a folder without checkpoints of another run (--resume goes "
          "on from them), got " +
          setup.out.string());
    }
  }
  require_file(o.log, "--log");
  require_file(o.benchmark_json, "--benchmark-json");
  require_file(o.profile_json, "--profile-json");
  if (o.plans != no_plans) require_file(o.plans, "--plans");
}

/// Gives the setup its model: the resumed one, a file's, or the extents of a new one.
void choose_model(run_setup& setup, std::optional<checkpoint>& resumed, const default_run& defaults,
                  bool text) {
  const run_options& o = setup.options;
  if (resumed) {
    setup.model_source = resumed->paths.model.string();
    setup.config = resumed->model.config;
    setup.parameters = std::move(resumed->model.parameters);
    setup.state = std::move(resumed->state);
  } else if (!o.checkpoint.empty()) {
    setup.model_source = o.checkpoint;
    setup.config = read_model_config(o.checkpoint);
  } else {
    setup.config = new_config(o, defaults, text);
  }
  require_vocabulary(setup.model_source, setup.config, text);
}

void require_same_data(const run_setup& setup) {
  const std::string seen = setup.data.training->fingerprint();
  if (setup.state->data != seen) {
    throw input_error(setup.data.training->name(0) + ": checksum of the data must be " +
                      setup.state->data + " as in the run that is resumed, got " + seen);
  }
}

}  // namespace

fs::path unused_default_folder() {
  int number = 1;
  while (latest_checkpoint(default_folder(number))) ++number;
  return fs::absolute(default_folder(number));
}

checkpoint find_resumed(const std::string& path) {
  if (!path.empty()) return read_checkpoint(path);
  int number = 1;
  while (latest_checkpoint(default_folder(number + 1))) ++number;
  return read_checkpoint(fs::absolute(default_folder(number)));
}

run_setup prepare(run_options options, std::optional<checkpoint> resumed) {
  run_setup setup;
  setup.options = std::move(options);
  run_options& o = setup.options;
  setup.machine = choose_machine(o.backend, o.precision, setup.machine_note);
  const bool on_gpu = setup.machine_note.empty() && o.backend != backend_choice::cpu;
  const default_run& defaults = on_gpu ? gpu_default : cpu_default;

  const data_kind kind = kind_of_data(o);
  const bool text = kind == data_kind::text;
  choose_model(setup, resumed, defaults, text);
  complete(o, setup.config, defaults, o.init.empty() && o.checkpoint.empty());
  require_consistent(o, setup.config, setup.state ? setup.state->step : 0);

  // llmc's own text is mostly headers, and their comments show best what was learnt.
  if (text && o.prompt.empty()) o.prompt = o.data.empty() ? "/// The " : "\n";
  setup.data = open_data(o, kind, setup.config.vocabulary);
  // Made here only for their checks; the training loop makes its own.
  batch_loader loader(*setup.data.training, *o.batch, *o.sequence, o.order, o.seed);
  if (setup.data.validation) {
    evaluation_set(*setup.data.validation, *o.batch, *o.sequence, o.val_batches);
  }
  if (setup.state) {
    require_same_data(setup);
    loader.restore(setup.state->loader);
  }

  setup.out = !o.out.empty() ? fs::path(o.out) : unused_default_folder();
  o.out = setup.out.string();
  require_output(setup);
  if (product_tuner* products = setup.machine->products()) load_plans(*products, o, setup.state);

  const bool from_file = !o.checkpoint.empty() && !setup.state;
  if (from_file) setup.parameters = read_model(o.checkpoint).parameters;
  if (setup.parameters.empty()) {
    setup.parameters = initialise(parameter_layout(setup.config), o.seed);
  }
  return setup;
}

}  // namespace gpt2_trainer
