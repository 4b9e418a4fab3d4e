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
