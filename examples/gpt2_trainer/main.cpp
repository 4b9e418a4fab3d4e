/// @file
/// gpt2_train: trains a GPT-2 on text or token shards. See --help.
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include "gpt2/files/checkpoint.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/machine/threads.hpp"
#include "gpt2/run/stop_request.hpp"
#include "options.hpp"
#include "setup.hpp"
#include "train.hpp"

namespace {

using namespace gpt2_trainer;

constexpr int failed = 1;
constexpr int not_usable = 2;

/// The options of a resumed run are those it was started with, unless the command line has others.
run_setup resume(int argc, char** argv, const run_options& given) {
  checkpoint saved = find_resumed(*given.resume, given.non_finite);
  run_options before = options_from_json(saved.state.options);
  before.out = saved.paths.state.parent_path().string();
  const run_options now = parse_options(argc, argv, before).options;
  require_resumable(before, now);
  return prepare(now, std::move(saved));
}

int run(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // then a file that grows past a limit is an error, not the end
  const parsed_options parsed = parse_options(argc, argv, {});
  if (parsed.help) {
    std::fputs(parsed.help->c_str(), stdout);
    return 0;
  }
  run_setup setup = parsed.options.resume ? resume(argc, argv, parsed.options)
                                          : prepare(parsed.options, std::nullopt);
  const bool saves = *setup.options.checkpoint_every > 0;
  const stop_request stop("gpt2_train", saves ? "writing a checkpoint" : "finishing a step");
  const run_end end = train(std::move(setup), stop);
  return end == run_end::stopped ? 128 + stop.signal() : 0;
}

int complain(const std::exception& error, int status) {
  std::fprintf(stderr, "gpt2_train: %s\n", error.what());
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  share_processors(argv);
  try {
    return run(argc, argv);
  } catch (const input_error& error) {
    return complain(error, not_usable);
  } catch (const std::filesystem::filesystem_error& error) {
    return complain(error, not_usable);  // all paths are the user's
  } catch (const std::bad_alloc&) {
    return complain(std::runtime_error("not enough memory for this model and batch"), failed);
  } catch (const std::exception& error) {
    return complain(error, failed);
  }
}
