/// @file
/// Where tokens come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpt2/data/data_record.hpp"

namespace gpt2_trainer {

/// Tokens in shards. Text is one shard in memory, llm.c's shards are files that are read as needed.
class token_source {
 public:
  virtual ~token_source() = default;

  virtual std::string name(std::size_t shard) const = 0;
  /// The number of tokens of each shard.
  const std::vector<std::int64_t>& shards() const { return shards_; }
  std::int64_t tokens() const;
  /// Tokens [offset, offset + count) of a shard. An input_error if one is not below the vocabulary
  /// or cannot be read.
  virtual void read(std::int32_t* to, std::size_t shard, std::int64_t offset,
                    std::int64_t count) const = 0;

  /// The files that the tokens are from; empty if they are from none or were not read as a whole.
  const data_record& files() const { return files_; }

 protected:
  token_source(std::vector<std::int64_t> shards, data_record files)
      : shards_(std::move(shards)), files_(std::move(files)) {}

 private:
  std::vector<std::int64_t> shards_;
  data_record files_;
};

/// Bytes as tokens; the name is for messages.
std::unique_ptr<token_source> make_text_source(std::string text, std::string name,
                                               data_record files);

/// Random tokens, a function of the seed; for measurements, as they teach nothing.
std::unique_ptr<token_source> make_random_source(std::int64_t tokens, std::int64_t vocabulary,
                                                 std::uint64_t seed);

enum class shard_reading {
  whole,     ///< before the first batch, all of it: each token is checked, and each file recorded
  as_needed  ///< for batches only, which are checked then; for measurements
};

/// llm.c's token shards, in the order given. Headers and sizes are checked at once. A file that
/// `known` has an unchanged record of was checked before and is not read again. `announce` is told
/// how many bytes are read as a whole, before they are. Where a file has changed when a batch is
/// read from it, that is an input_error.
std::unique_ptr<token_source> make_shard_source(
    const std::vector<std::filesystem::path>& paths, std::int64_t vocabulary, shard_reading reading,
    const data_record& known = {},
    const std::function<void(std::int64_t)>& announce = [](std::int64_t) {});

/// The path itself if there is a file or folder of that name, else the files that match it as a
/// shell pattern, sorted; an input_error if there are none.
std::vector<std::filesystem::path> matching_paths(const std::string& pattern);

/// Whether these are token shards: a file that is named *.bin or has a shard's magic number.
bool are_shards(const std::vector<std::filesystem::path>& paths);

}  // namespace gpt2_trainer
