#include <filesystem>

#include "../support/catch.hpp"
#include "gpt2_trainer/setup.hpp"
#include "gpt2_trainer/training/saving.hpp"
#include "gpt2_trainer/training/session.hpp"
#include "temporary_folder.hpp"

using namespace gpt2_trainer;
using llmc_test::message_of;
using llmc_test::temporary_folder;

namespace {

run_options tiny_options(const temporary_folder& folder) {
  run_options options;
  options.backend = backend_choice::cpu;
  options.data = llmc_test::write_text(folder / "text", std::string(400, 'x')).string();
  options.out = (folder / "run").string();
  options.layers = 1;
  options.heads = 2;
  options.channels = 8;
  options.context = 8;
  options.batch = 2;
  options.steps = 3;
  options.checkpoint_every = 1;
  return options;
}

}  // namespace

TEST_CASE("saving: a checkpoint that cannot be written costs neither run nor others", "[saving]") {
  namespace fs = std::filesystem;
  const temporary_folder folder;
  const stop_request never("test", "nothing");
  session of(prepare(tiny_options(folder), std::nullopt), never);
  saver saves(of);
  const auto step = [&] {
    of.steps.next();
    return checkpoint_at(folder / "run", of.steps.done());
  };
  const checkpoint_paths first = step();
  REQUIRE(saves.is_due());
  saves.save();
  CHECK(fs::exists(first.state));

  const checkpoint_paths second = step();
  fs::create_directory(second.model);  // no file can have this name
  saves.save();
  CHECK_FALSE(fs::exists(second.state));
  CHECK(read_checkpoint(first.state).state.step == 1);

  const checkpoint_paths third = step();
  saves.save();
  CHECK(read_checkpoint(third.state).state.step == 3);
  // All is there, but not all that was asked for.
  const std::string failure = message_of([&] { saves.finish(); });
  INFO(failure);
  CHECK(failure.find("no checkpoint could be written after step 2: ") == 0);
  CHECK(failure.find(second.model.string()) != std::string::npos);
}

TEST_CASE("saving: the third failure in a row ends the run", "[saving]") {
  namespace fs = std::filesystem;
  const temporary_folder folder;
  const stop_request never("test", "nothing");
  run_options options = tiny_options(folder);
  options.steps = 9;
  session of(prepare(options, std::nullopt), never);
  saver saves(of);
  const auto attempt = [&](bool fails) {
    of.steps.next();
    if (fails) fs::create_directory(checkpoint_at(folder / "run", of.steps.done()).model);
    return message_of([&] { saves.save(); });
  };
  for (const bool fails : {true, true, false, true, true}) CHECK(attempt(fails).empty());
  const std::string failure = attempt(true);
  CHECK(failure.find("no checkpoint could be written after step 6: ") == 0);
  CHECK(failure.find("; nor could the 2 before it") != std::string::npos);
  CHECK(read_checkpoint(folder / "run/state_00000003.bin").state.step == 3);
}

TEST_CASE("saving: the last checkpoints stay, and those of every n-th step", "[saving]") {
  const temporary_folder folder;
  const stop_request never("test", "nothing");
  run_options options = tiny_options(folder);
  options.steps = 9;
  options.keep = 2;
  options.keep_every = 3;
  session of(prepare(options, std::nullopt), never);
  saver saves(of);
  const auto kept_after = [&](int steps) {
    while (of.steps.done() < steps) {
      of.steps.next();
      saves.save();
    }
    return steps_in(folder / "run");
  };
  using steps = std::vector<std::int64_t>;
  CHECK(kept_after(2) == steps{2, 1});
  CHECK(kept_after(3) == steps{3, 2});
  CHECK(kept_after(5) == steps{5, 4, 3});
  CHECK(kept_after(8) == steps{8, 7, 6, 3});
  CHECK(read_checkpoint(folder / "run/state_00000003.bin").state.step == 3);
}

TEST_CASE("saving: what cannot be written at the end is an error", "[saving]") {
  const temporary_folder folder;
  const stop_request never("test", "nothing");
  session of(prepare(tiny_options(folder), std::nullopt), never);
  saver saves(of);
  of.steps.next();
  std::filesystem::create_directory(checkpoint_at(folder / "run", 1).model);
  saves.save();
  CHECK(message_of([&] { saves.finish(); }).find("no checkpoint could be written after step 1: ") ==
        0);
}
