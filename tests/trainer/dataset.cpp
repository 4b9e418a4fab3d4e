#include "gpt2/data/dataset.hpp"
#include "gpt2/input_error.hpp"

#include <algorithm>
#include <fstream>
#include <set>

#include "../support/catch.hpp"
#include "gpt2/data/token_source.hpp"
#include "gpt2/model/config.hpp"
#include "temporary_folder.hpp"

using namespace gpt2_trainer;
using namespace llmc_test;

namespace {

constexpr std::int64_t gpt2_vocabulary = 50257;

using tokens = std::vector<std::int32_t>;
struct batch {
  tokens inputs;
  tokens targets;
};

batch next(batch_loader& loader, std::int64_t count) {
  batch b{tokens(static_cast<std::size_t>(count)), tokens(static_cast<std::size_t>(count))};
  loader.next(b.inputs.data(), b.targets.data());
  return b;
}

std::unique_ptr<token_source> shards(const std::vector<std::filesystem::path>& paths,
                                     std::int64_t vocabulary = gpt2_vocabulary) {
  return make_shard_source(paths, vocabulary, shard_reading::whole);
}

/// A source whose tokens are 0, 1, 2, ...
std::unique_ptr<token_source> counting_source(const temporary_folder& folder,
                                              const std::vector<int>& sizes) {
  std::vector<std::filesystem::path> paths;
  int first = 0;
  for (const int size : sizes) {
    std::vector<std::uint16_t> values = counting_tokens(size);
    for (std::uint16_t& value : values) value = static_cast<std::uint16_t>(value + first);
    first += size;
    paths.push_back(write_shard(folder / ("s" + std::to_string(paths.size()) + ".bin"), values));
  }
  return shards(paths);
}

}  // namespace

TEST_CASE("dataset: names and patterns", "[dataset]") {
  const temporary_folder folder;
  for (const char* name : {"b_2.bin", "b_1.bin", "b_3.txt", "odd[1].bin"}) {
    write_text(folder / name, "");
  }
  CHECK(matching_paths((folder / "b_*.bin").string()) ==
        std::vector<std::filesystem::path>{folder / "b_1.bin", folder / "b_2.bin"});
  CHECK(matching_paths((folder / "odd[1].bin").string()).size() == 1);  // a name before a pattern
  const std::string none = (folder / "c_*.bin").string();
  CHECK(message_of([&] { matching_paths(none); }) ==
        none +
            ": a file, a folder or a pattern that matches files is wanted, but nothing has or "
            "matches this name");
}

TEST_CASE("dataset: shards are told from text by name and by content", "[dataset]") {
  const temporary_folder folder;
  CHECK(are_shards({write_shard(folder / "tokens", {1, 2})}));
  CHECK(are_shards({write_text(folder / "empty.bin", "")}));
  CHECK_FALSE(are_shards({write_text(folder / "a.txt", std::string(2000, 'x'))}));
  CHECK_FALSE(are_shards({folder.path()}));
}

TEST_CASE("dataset: one token less than a batch needs is refused, as many give one batch",
          "[dataset]") {
  const temporary_folder folder;
  const auto few = shards({write_shard(folder / "few.bin", counting_tokens(12))});
  CHECK(message_of([&] { batch_loader(*few, 3, 4, token_order::sequential, 1); }) ==
        (folder / "few.bin").string() +
            ": at least batch * sequence + 1 = 13 tokens are wanted, got 12");

  const auto enough = shards({write_shard(folder / "enough.bin", counting_tokens(13))});
  batch_loader loader(*enough, 3, 4, token_order::sequential, 1);
  CHECK(loader.windows() == 3);
  const batch first = next(loader, 12);
  CHECK(first.inputs == tokens{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(first.targets == tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(loader.state().epoch == 1);
  CHECK(next(loader, 12).inputs == first.inputs);
}

TEST_CASE("dataset: of several shards each must hold a sequence and one token more", "[dataset]") {
  const temporary_folder folder;
  const auto source = counting_source(folder, {20, 4});
  CHECK(message_of([&] { batch_loader(*source, 1, 4, token_order::shuffled, 1); }) ==
        (folder / "s1.bin").string() + ": at least sequence + 1 = 5 tokens are wanted, got 4");
  CHECK_NOTHROW(batch_loader(*source, 1, 3, token_order::shuffled, 1));
}

TEST_CASE("dataset: every token is used in every epoch", "[dataset]") {
  const auto order = GENERATE(token_order::sequential, token_order::shuffled);
  const temporary_folder folder;
  const std::vector<int> sizes{17, 5, 30};
  const auto source = counting_source(folder, sizes);
  batch_loader loader(*source, 1, 4, order, 3);
  CHECK(loader.windows() == 4 + 1 + 8);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::set<std::int32_t> inputs, targets;
    for (int window = 0; window < 13; ++window) {
      CHECK(loader.state().epoch == epoch);
      const batch b = next(loader, 4);
      for (std::size_t i = 0; i < 4; ++i) CHECK(b.targets[i] == b.inputs[i] + 1);
      inputs.insert(b.inputs.begin(), b.inputs.end());
      targets.insert(b.targets.begin(), b.targets.end());
    }
    CHECK(inputs.size() == 52 - 3);   // all but the last of each shard
    CHECK(targets.size() == 52 - 3);  // all but the first of each shard
  }
}

TEST_CASE("dataset: the order is drawn anew for each epoch, as the seed says", "[dataset]") {
  const temporary_folder folder;
  const auto source = counting_source(folder, {400, 300});
  const auto first_of_windows = [&](std::uint64_t seed, std::int64_t epoch) {
    batch_loader loader(*source, 1, 4, token_order::shuffled, seed);
    loader.restore({epoch, 0, 0});
    tokens firsts;
    for (std::int64_t i = 0; i < loader.windows(); ++i) firsts.push_back(next(loader, 4).inputs[0]);
    return firsts;
  };
  CHECK(first_of_windows(1, 0) == first_of_windows(1, 0));
  CHECK(first_of_windows(1, 0) != first_of_windows(1, 1));
  CHECK(first_of_windows(1, 0) != first_of_windows(2, 0));
}

TEST_CASE("dataset: a loader goes on from a saved state", "[dataset]") {
  const auto order = GENERATE(token_order::sequential, token_order::shuffled);
  const temporary_folder folder;
  const auto source = counting_source(folder, {21, 40, 9});
  batch_loader loader(*source, 3, 4, order, 5);
  for (int i = 0; i < 20; ++i) {  // some of the places are within a shard, some at its beginning
    batch_loader resumed(*source, 3, 4, order, 5);
    resumed.restore(loader.state());
    CHECK(next(resumed, 12).inputs == next(loader, 12).inputs);
    CHECK(next(resumed, 12).targets == next(loader, 12).targets);
  }
}

TEST_CASE("dataset: a saved state that does not fit is refused", "[dataset]") {
  const temporary_folder folder;
  const auto source = counting_source(folder, {21, 40});
  batch_loader loader(*source, 1, 4, token_order::sequential, 5);
  CHECK_THROWS_AS(loader.restore({0, 2, 0}), input_error);
  CHECK_THROWS_AS(loader.restore({-1, 0, 0}), input_error);
  CHECK_THROWS_AS(loader.restore({0, 0, 5}), input_error);
  CHECK_THROWS_AS(loader.restore({0, 0, -1}), input_error);
  CHECK_THROWS_AS(loader.restore({std::int64_t{1} << 62, 0, 0}), input_error);
  CHECK(next(loader, 4).inputs == tokens{0, 1, 2, 3});  // none of them moved it
  CHECK_NOTHROW(loader.restore({7, 1, 9}));
}

TEST_CASE("dataset: validation counts each target once", "[dataset]") {
  const temporary_folder folder;
  const auto source = counting_source(folder, {22, 3, 9});
  const evaluation_set set(*source, 2, 4, 0);
  tokens targets;
  for (std::size_t i = 0; i < set.size(); ++i) {
    const evaluation_batch part = set[i];
    CHECK((part.b >= 1 && part.b <= 2 && part.t >= 1 && part.t <= 4));
    CHECK(part.tokens.size() == static_cast<std::size_t>(part.b * part.t));
    REQUIRE(part.targets.size() == part.tokens.size());
    for (std::size_t j = 0; j < part.tokens.size(); ++j) {
      CHECK(part.targets[j] == part.tokens[j] + 1);
    }
    targets.insert(targets.end(), part.targets.begin(), part.targets.end());
  }
  CHECK(targets.size() == 21 + 2 + 8);
  CHECK(std::set<std::int32_t>(targets.begin(), targets.end()).size() == targets.size());

  CHECK(evaluation_set(*source, 2, 4, 2).size() == 2);
  const auto single = counting_source(folder, {1});
  CHECK_THROWS_AS(evaluation_set(*single, 2, 4, 0), input_error);
}

TEST_CASE("dataset: bytes of text are tokens", "[dataset]") {
  const auto source = make_text_source(std::string("\0a\xFF", 3), "name", {});
  tokens read(2);
  source->read(read.data(), 0, 1, 2);
  CHECK(read == tokens{97, 255});
  CHECK(source->name(0) == "name");
}

TEST_CASE("dataset: a batch that cannot be read leaves the loader where it was", "[dataset]") {
  const auto order = GENERATE(token_order::sequential, token_order::shuffled);
  const temporary_folder folder;
  const auto source = counting_source(folder, {21, 40, 9});
  batch_loader loader(*source, 4, 4, order, 5);
  next(loader, 16);  // the next batch begins within a shard and ends in another
  const loader_state before = loader.state();
  batch_loader copy = loader;

  // One shard after the other disappears, so that each row is once the first that cannot be read.
  for (const char* name : {"s0.bin", "s1.bin", "s2.bin"}) {
    std::filesystem::rename(folder / name, folder / "away");
    batch_loader tried = loader;
    const bool fails = !message_of([&] { next(tried, 16); }).empty();
    std::filesystem::rename(folder / "away", folder / name);
    if (fails) {
      CHECK(tried.state().epoch == before.epoch);
      CHECK(tried.state().shard == before.shard);
      CHECK(tried.state().window == before.window);
      batch_loader expected = copy;
      CHECK(next(tried, 16).inputs == next(expected, 16).inputs);
    }
  }
}
