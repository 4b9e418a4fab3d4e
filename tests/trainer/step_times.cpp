#include <chrono>

#include "../support/catch.hpp"
#include "gpt2_trainer/setup.hpp"
#include "gpt2_trainer/training/step_queue.hpp"
#include "temporary_folder.hpp"

using namespace gpt2_trainer;
using llmc_test::temporary_folder;

TEST_CASE("step times: on a machine that queues nothing, each step is timed by itself",
          "[step_times]") {
  using clock = std::chrono::steady_clock;
  const temporary_folder folder;
  run_options options;
  options.backend = backend_choice::cpu;
  options.data = llmc_test::write_text(folder / "text", std::string(4000, 'x')).string();
  options.out = (folder / "run").string();
  options.layers = 1;
  options.heads = 2;
  options.channels = 16;
  options.context = 64;
  options.total_batch = 2048;  // two micro-batches
  options.steps = 20;
  run_setup setup = prepare(options, std::nullopt);
  step_queue steps(setup);
  double timed = 0;
  double passed = 0;
  for (int number = 1; number <= 20; ++number) {
    const clock::time_point begin = clock::now();
    const std::optional<finished_step> step = steps.next();
    const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
    REQUIRE(step.has_value());
    CHECK(step->number == number);
    CHECK(step->seconds <= seconds);
    timed += step->seconds;
    passed += seconds;
  }
  CHECK(timed > 0.5 * passed);
  CHECK_FALSE(steps.finish().has_value());
}
