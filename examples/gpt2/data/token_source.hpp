/// @file
/// Where tokens come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gpt2_trainer {

/// Tokens in shards. Text is one shard in memory, llm.c's shards are files that are read as needed.
class token_source {
 public:
  virtual ~token_source() = default;

  virtual std::string name(std::size_t shard) const = 0;
  /// The number of tokens of each shard.
  const std::vector<std::int64_t>& shards() const { return shards_; }
  std::int64_t tokens() const;
  /// Tokens [offset, offset + count) of a shard. One that is not below the vocabulary is an
  /// input_error.
  virtual void read(std::int32_t* to, std::size_t shard, std::int64_t offset,
                    std::int64_t count) const = 0;

  /// A checksum of the shards' sizes and first tokens: enough to notice other data on resuming.
  std::string fingerprint() const;

 protected:
  explicit token_source(std::vector<std::int64_t> shards) : shards_(std::move(shards)) {}

 private:
  std::vector<std::int64_t> shards_;
};

/// Bytes as tokens; the name is for messages.
std::unique_ptr<token_source> make_text_source(std::string text, std::string name);

/// Random tokens, a function of the seed; for measurements, as they teach nothing.
std::unique_ptr<token_source> make_random_source(std::int64_t tokens, std::int64_t vocabulary,
                                                 std::uint64_t seed);

/// llm.c's token shards, in the order given. Headers and sizes are checked at once. So are the
/// tokens where all shards together hold less than 128 million, which takes a fraction of a second.
/// Tokens of larger sets are checked when they are read.
std::unique_ptr<token_source> make_shard_source(const std::vector<std::filesystem::path>& paths,
                                                std::int64_t vocabulary);

/// The path itself if there is a file or folder of that name, else the files that match it as a
/// shell pattern, sorted; an input_error if there are none.
std::vector<std::filesystem::path> matching_paths(const std::string& pattern);

/// Whether these are token shards: a file that is named *.bin or has a shard's magic number.
bool are_shards(const std::vector<std::filesystem::path>& paths);

}  // namespace gpt2_trainer
