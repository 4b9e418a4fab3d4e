/// @file
/// Writes tokens as llm.c's shards, for training and for validation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "gpt2/files/file.hpp"

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

enum class shard_purpose { training, validation };

struct shard_options {
  /// FOLDER/NAME of FOLDER/NAME_train_000001.bin, ... and FOLDER/NAME_val_000000.bin, ...
  std::filesystem::path prefix;
  std::int64_t shard_tokens = 100'000'000;  ///< of each but the last one
  token_width width = token_width::automatic;
  double val_fraction = 0;  ///< of the documents
  std::uint64_t seed = 42;  ///< of which ones
  bool overwrite = false;   ///< shards of that prefix
};

/// Shards of that prefix that exist, sorted.
std::vector<std::filesystem::path> shards_of(const std::filesystem::path& prefix);

/// The names of all shards appear in `commit`, when all their bytes are on the disk. Without it
/// nothing stays, and shards that were there are as they were.
class shard_writer {
 public:
  /// An input_error if there are shards of that prefix and they may not be overwritten, if the
  /// folder cannot be written, or if tokens of that width cannot have this vocabulary.
  shard_writer(const shard_options& options, std::int64_t vocabulary);
  shard_writer(const shard_writer&) = delete;
  ~shard_writer();

  /// A document goes on from one shard to the next where it does not fit. Which documents are for
  /// validation depends on their numbers and the seed alone; the first one is for training.
  void begin_document();
  void add(const std::int32_t* tokens, std::size_t count);
  void commit();

  struct part {
    std::vector<std::filesystem::path> shards;
    std::int64_t documents = 0;
    std::int64_t tokens = 0;
  };
  const part& training() const;
  const part& validation() const;
};

}  // namespace gpt2_trainer
