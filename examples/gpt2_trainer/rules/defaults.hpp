/// @file
/// The values of options that are not given, and the rules between options.
#pragma once

#include <cstdint>

#include "gpt2/model/config.hpp"
#include "gpt2_trainer/options.hpp"

namespace gpt2_trainer {

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
inline constexpr default_run cpu_default{2, 4, 64, 64, 16, 850};
inline constexpr default_run gpu_default{6, 6, 384, 256, 16, 600};

/// Gives those options their values that follow from the model and the machine. A run is saved with
/// these: on another machine it stays what it is.
void choose_defaults(run_options& options, const gpt2_config& config, const default_run& defaults,
                     bool default_batch);

/// The options with all others, which follow from those. A run is saved without these, so when it
/// is resumed with another --lr, say, they follow that one.
run_options with_derived(run_options options);

/// Throws an input_error unless the options agree with each other, the model and the steps that are
/// done. All have values.
void require_consistent(const run_options& options, const gpt2_config& config, std::int64_t done);

}  // namespace gpt2_trainer
