#include "run_data.hpp"

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <utility>
#include <vector>

#include "gpt2/data/corpus.hpp"
#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

std::string describe(const text_corpus& corpus, const std::string& name) {
  const std::string text = name + ": " + std::to_string(corpus.documents) +
                           (corpus.documents == 1 ? " document" : " documents");
  const std::string passed_over = corpus.passed_over.text();
  return passed_over.empty() ? text : text + " (passed over: " + passed_over + ")";
}

/// Text for training and for validation. The latter is the end of the text, or another file.
run_data text_data(const run_options& options) {
  text_corpus corpus =
      options.data.empty() ? embedded_text() : read_text(matching_paths(options.data));
  const std::string name = options.data.empty() ? "llmc's own text" : options.data;
  run_data data{true, name, describe(corpus, name), nullptr, nullptr};
  if (!options.val.empty()) {
    const std::vector<fs::path> paths = matching_paths(options.val);
    if (are_shards(paths)) {
      throw input_error(options.val + ": validation must be text as the training data is, got " +
                        "token shards");
    }
    text_corpus validation = read_text(paths);
    data.validation =
        make_text_source(std::move(validation.text), options.val, std::move(validation.files));
  } else if (options.val_fraction > 0) {
    const auto kept = static_cast<std::size_t>(static_cast<double>(corpus.text.size()) *
                                               (1 - options.val_fraction));
    data.validation = make_text_source(corpus.text.substr(kept),
                                       name + ", the part for validation (--val-fraction)", {});
    corpus.text.resize(kept);
  }
  data.training = make_text_source(std::move(corpus.text), name, std::move(corpus.files));
  return data;
}

/// What takes long must not look as if nothing happened.
void announce_reading(std::int64_t bytes) {
  constexpr std::int64_t seconds_of_reading = 4'000'000'000;
  if (bytes < seconds_of_reading) return;
  std::fprintf(stderr,
               "gpt2_train: reading %.1f GB of token shards, to check them now and to notice at "
               "--resume if they change\n",
               static_cast<double>(bytes) / 1e9);
}

run_data shard_data(const run_options& options, const std::vector<fs::path>& paths,
                    std::int64_t vocabulary, const data_record& known) {
  const shard_reading reading =
      only_measures(options) ? shard_reading::as_needed : shard_reading::whole;
  run_data data{false, options.data, "",
                make_shard_source(paths, vocabulary, reading, known, announce_reading), nullptr};
  data.description = options.data + ": " + std::to_string(paths.size()) +
                     (paths.size() == 1 ? " token shard" : " token shards");
  if (!options.val.empty()) {
    data.validation =
        make_shard_source(matching_paths(options.val), vocabulary, reading, {}, announce_reading);
  }
  return data;
}

run_data random_data(const run_options& options, std::int64_t vocabulary) {
  constexpr std::int64_t batches = 64;
  const std::int64_t tokens = batches * *options.batch * *options.sequence + 1;
  return {false, "random tokens", "random tokens",
          make_random_source(tokens, vocabulary, options.seed), nullptr};
}

}  // namespace

data_kind kind_of_data(const run_options& options) {
  if (options.data.empty()) return only_measures(options) ? data_kind::random : data_kind::text;
  return are_shards(matching_paths(options.data)) ? data_kind::shards : data_kind::text;
}

run_data open_data(const run_options& options, data_kind kind, std::int64_t vocabulary,
                   const data_record& known) {
  switch (kind) {
    case data_kind::text: break;
    case data_kind::shards:
      return shard_data(options, matching_paths(options.data), vocabulary, known);
    case data_kind::random: return random_data(options, vocabulary);
  }
  return text_data(options);
}

}  // namespace gpt2_trainer
