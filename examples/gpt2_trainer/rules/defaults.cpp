#include "gpt2_trainer/rules/defaults.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "gpt2/data/text.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/run/numbers.hpp"
#include "gpt2_trainer/report/sample.hpp"

namespace gpt2_trainer {
namespace {

constexpr std::int64_t large_model_batch = 4;

template <class Value>
void set_default(std::optional<Value>& option, Value value) {
  if (!option) option = value;
}

/// The peak learning rate that suits a model of this width: 3e-4 for GPT-2 124M, and for narrower
/// models more, as measured down to 64 channels.
float default_learning_rate(std::int64_t channels) {
  return static_cast<float>(3e-4 * std::pow(768 / static_cast<double>(channels), 4.0 / 3));
}

}  // namespace

void choose_defaults(run_options& o, const gpt2_config& config, const default_run& defaults,
                     bool default_batch) {
  if (only_measures(o)) {
    // A profile times as many steps by themselves as with their calls timed.
    o.steps = warm_up_steps + (o.benchmark ? *o.benchmark : 2 * *o.profile);
    o.val_every = o.sample_every = o.checkpoint_every = 0;
  }
  set_default(o.vocabulary, config.vocabulary);
  set_default(o.layers, config.layers);
  set_default(o.heads, config.heads);
  set_default(o.channels, config.channels);
  set_default(o.context, config.max_sequence);
  set_default(o.sequence, config.max_sequence);
  set_default(o.batch, default_batch ? defaults.batch : large_model_batch);
  set_default(o.steps, defaults.steps);
  set_default(o.lr, default_learning_rate(config.channels));
}

run_options with_derived(run_options o) {
  set_default(o.total_batch, *o.batch * *o.sequence);
  set_default(o.min_lr, static_cast<float>(as_typed(*o.lr) / 10));
  set_default(o.warmup, std::min<std::int64_t>(*o.steps / 10, 700));
  set_default(o.val_every, (*o.steps - 1) / 4 + 1);
  set_default(o.sample_every, *o.steps);
  set_default(o.checkpoint_every, *o.steps);
  // llmc's own text is mostly headers, and their comments show best what was learnt.
  if (o.prompt.empty() && o.vocabulary == byte_vocabulary) {
    o.prompt = o.data.empty() ? "/// The " : "\n";
  }
  return o;
}

void require_consistent(const run_options& o, const gpt2_config& config, std::int64_t done) {
  const auto require = [](bool fine, const std::string& wanted, auto seen) {
    if (!fine) throw input_error(wanted + ", got " + number_text(seen));
  };
  require(
      *o.sequence <= config.max_sequence,
      "--sequence must be at most the model's context of " + std::to_string(config.max_sequence),
      *o.sequence);
  require(*o.total_batch % (*o.batch * *o.sequence) == 0,
          "--total-batch must be a multiple of batch * sequence = " +
              std::to_string(*o.batch * *o.sequence),
          *o.total_batch);
  require(*o.min_lr <= *o.lr, "--min-lr must be at most --lr = " + number_text(*o.lr), *o.min_lr);
  require(*o.warmup <= *o.steps, "--warmup must be at most --steps = " + std::to_string(*o.steps),
          *o.warmup);
  require_text_model(config, o.prompt);
  require(*o.steps > done,
          "--steps must be more than the " + std::to_string(done) +
              " that are done (--prompt TEXT alone samples the model)",
          *o.steps);
}

}  // namespace gpt2_trainer
