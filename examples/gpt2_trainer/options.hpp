/// @file
/// gpt2_train's command line.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include <llmc/types.hpp>

#include "gpt2/data/dataset.hpp"
#include "gpt2/files/finite.hpp"
#include "gpt2/machine/machine.hpp"
#include "gpt2/run/schedule.hpp"

namespace gpt2_trainer {

/// What backward computes anew instead of keeping it from forward.
enum class recompute_choice { none, gelu };

constexpr const char* to_string(recompute_choice choice) {
  switch (choice) {
    case recompute_choice::none: return "none";
    case recompute_choice::gelu: return "gelu";
  }
  return "unknown";
}

inline constexpr std::array recompute_choices{recompute_choice::none, recompute_choice::gelu};

/// The value of --plans for products that are not tuned.
inline constexpr const char* no_plans = "off";
/// Steps of a benchmark or a profile that are not timed.
inline constexpr std::int64_t warm_up_steps = 10;

/// What was asked for. Optional numbers have defaults that depend on the model, the data or the
/// machine: complete() in setup.hpp fills them.
struct run_options {
  std::string data;  ///< empty: llmc's own text
  std::string val;
  double val_fraction = 0.05;
  token_order order = token_order::shuffled;
  std::optional<std::int64_t> vocabulary;

  std::string init;
  std::optional<std::int64_t> layers;
  std::optional<std::int64_t> heads;
  std::optional<std::int64_t> channels;
  std::optional<std::int64_t> context;
  std::string checkpoint;

  std::optional<std::int64_t> steps;
  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> sequence;
  std::optional<std::int64_t> total_batch;
  std::uint64_t seed = 42;

  std::optional<float> lr;
  std::optional<float> min_lr;
  std::optional<std::int64_t> warmup;
  schedule_kind schedule = schedule_kind::cosine;
  float weight_decay = 0.1f;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float clip = 1;

  std::optional<std::int64_t> val_every;
  std::int64_t val_batches = 20;
  std::optional<std::int64_t> sample_every;
  std::int64_t sample_length = 256;
  std::string prompt;
  double temperature = 0.7;
  std::int64_t top_k = 40;

  std::string out;  ///< empty: llmc-run, or the first of llmc-run-2, ... that is free
  std::optional<std::int64_t> checkpoint_every;
  double checkpoint_minutes = 10;
  std::int64_t keep = 0;  ///< the last checkpoints; 0: all
  std::int64_t keep_every = 0;
  non_finite_choice non_finite = non_finite_choice::refuse;
  std::string log;

  backend_choice backend = backend_choice::automatic;
  llmc::precision precision = llmc::precision::tf32x3;
  recompute_choice recompute = recompute_choice::none;
  std::string plans;  ///< empty: product_plans.txt beside the checkpoints; no_plans: none

  std::optional<std::int64_t> benchmark;  ///< steps that are timed
  std::string benchmark_json;
  std::optional<std::int64_t> profile;  ///< steps whose calls are timed
  std::string profile_json;

  std::optional<std::string> resume;  ///< where to go on; empty: the latest default folder
};

/// What the command line asks for, or the text that answers it.
struct parsed_options {
  run_options options;
  std::optional<std::string> help;  ///< set by --help and --version: print it and leave
};

/// Options that are not given keep the values of `defaults`. A bad option is an input_error.
parsed_options parse_options(int argc, const char* const* argv, const run_options& defaults);

/// Whether the run is for measuring, and neither validates, samples nor writes checkpoints.
inline bool only_measures(const run_options& o) {
  return o.benchmark || o.profile;
}

schedule schedule_of(const run_options& options);

/// All options but those of --resume, --benchmark and --profile.
nlohmann::json json_of_options(const run_options& options);
/// Of those, the ones that have other values: {"steps": {"from": 10, "to": 20}}.
nlohmann::json changed_options(const run_options& from, const run_options& to);

/// The same as one line of JSON, and back.
std::string to_json(const run_options& options);
run_options options_from_json(const std::string& text);

/// Throws an input_error unless those options agree that a resumed run must have in common with the
/// run it goes on from: the model's, the batch's and the order of the data.
void require_resumable(const run_options& saved, const run_options& now);

}  // namespace gpt2_trainer
