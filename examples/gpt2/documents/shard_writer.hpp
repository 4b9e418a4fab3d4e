/// @file
/// Writes tokens as llm.c's shards, for training and for validation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace gpt2_trainer {

/// How many bits a token has in a shard.
enum class token_width { automatic, narrow, wide };

constexpr const char* to_string(token_width width) {
  switch (width) {
    case token_width::automatic: return "auto";
    case token_width::narrow: return "16";
    case token_width::wide: return "32";
  }
  return "unknown";
}

inline constexpr std::array token_widths{token_width::automatic, token_width::narrow,
                                         token_width::wide};

/// What to do where there are shards of that name.
enum class existing_shards { refuse, replace };

constexpr const char* to_string(existing_shards choice) {
  switch (choice) {
    case existing_shards::refuse: return "refuse";
    case existing_shards::replace: return "replace";
  }
  return "unknown";
}

inline constexpr std::array existing_shards_choices{existing_shards::refuse,
                                                    existing_shards::replace};

struct shard_options {
  /// FOLDER/NAME of FOLDER/NAME_train_000001.bin, ... and FOLDER/NAME_val_000000.bin, ...
  std::filesystem::path prefix;
  std::int64_t shard_tokens = 100'000'000;  ///< of each but the last one
  token_width width = token_width::automatic;
  double val_fraction = 0;  ///< of the documents
  std::uint64_t seed = 42;  ///< of which ones
  existing_shards existing = existing_shards::refuse;
};

/// Shards of that prefix that exist, sorted.
std::vector<std::filesystem::path> shards_of(const std::filesystem::path& prefix);

/// The shards of one purpose.
struct written_shards {
  std::vector<std::filesystem::path> paths;
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
};

/// The names of all shards appear in `commit`, when all their bytes are on the disk. Without it
/// nothing stays, and shards that were there are as they were.
class shard_writer {
 public:
  /// An input_error if there are shards of that prefix and they may not be replaced, if the folder
  /// cannot be written, or if tokens of that width cannot have this vocabulary.
  shard_writer(shard_options options, std::int64_t vocabulary);
  shard_writer(const shard_writer&) = delete;
  ~shard_writer();

  /// Shards that commit replaces or removes.
  const std::vector<std::filesystem::path>& replaced() const { return replaced_; }

  /// Which documents are for validation depends on their numbers and the seed alone; the first one
  /// is for training.
  void begin_document();
  /// Goes on with the document, in the next shard where this one is full.
  void add(const std::int32_t* tokens, std::size_t count);
  void commit();

  const written_shards& training() const;
  const written_shards& validation() const;

 private:
  class output;

  shard_options options_;
  std::vector<std::filesystem::path> replaced_;
  std::vector<std::filesystem::path> new_folders_;
  std::unique_ptr<output> training_;
  std::unique_ptr<output> validation_;
  output* current_ = nullptr;  ///< of the document
  std::int64_t documents_ = 0;
};

}  // namespace gpt2_trainer
