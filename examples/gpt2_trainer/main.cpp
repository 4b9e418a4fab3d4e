/// @file
/// gpt2_train: trains a GPT-2 on text or token shards. See --help.
#include <csignal>
#include <cstdio>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include "gpt2/files/checkpoint.hpp"
#include "gpt2/run/program.hpp"
#include "gpt2/run/stop_request.hpp"
#include "options.hpp"
#include "setup.hpp"
#include "train.hpp"
#include "training/evaluation.hpp"

namespace {

using namespace gpt2_trainer;

/// A finished run that is given a prompt is only sampled.
bool asks_for_a_sample(const run_options& given, const run_options& now, std::int64_t done) {
  return !given.prompt.empty() && now.steps == done;
}

int status_of(run_end end, const stop_request& stop) {
  switch (end) {
    case run_end::done: return 0;
    case run_end::not_logged: return 1;
    case run_end::stopped: break;
  }
  return 128 + stop.signal();
}

int only_sample(run_options now, const run_options& before, checkpoint from) {
  run_options kept = now;
  kept.seed = before.seed;  // with another one there is another sample
  require_resumable(before, kept);
  const stop_request never("gpt2_train", "sampling");  // a signal ends the program: nothing is lost
  return status_of(sample(now, std::move(from), never), never);
}

int train(run_setup setup) {
  const bool saves = *setup.options.checkpoint_every > 0;
  const stop_request stop("gpt2_train", saves ? "writing a checkpoint" : "finishing a step");
  return status_of(train(std::move(setup), stop), stop);
}

/// The options of a resumed run are those it was started with, unless the command line has others.
int resume(int argc, char** argv, const run_options& given) {
  checkpoint saved = find_resumed(*given.resume, given.non_finite);
  run_options before = options_from_json(saved.state.options);
  before.out = saved.paths.state.parent_path().string();
  run_options now = parse_options(argc, argv, before).options;
  if (asks_for_a_sample(given, now, saved.state.step)) {
    now.log = given.log;  // nothing is written that is not asked for
    return only_sample(now, before, std::move(saved));
  }
  return train(prepare(now, resumed_run{std::move(saved), before}));
}

int run(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // then a file that grows past a limit is an error, not the end
  const parsed_options parsed = parse_options(argc, argv, {});
  if (parsed.help) {
    std::fputs(parsed.help->c_str(), stdout);
    return 0;
  }
  try {
    return parsed.options.resume ? resume(argc, argv, parsed.options)
                                 : train(prepare(parsed.options, std::nullopt));
  } catch (const std::bad_alloc&) {
    throw std::runtime_error("not enough memory for this model and batch");
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_program("gpt2_train", argv, [&] { return run(argc, argv); });
}
