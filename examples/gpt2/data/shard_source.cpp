#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "gpt2/data/text.hpp"
#include "gpt2/data/token_source.hpp"
#include "gpt2/files/file.hpp"
#include "gpt2/files/file_header.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

/// A shard's file, and how it was when it was checked.
struct shard_file {
  fs::path path;
  file_stamp stamp;
  std::int64_t tokens;
  std::int64_t token_bytes;
};

/// The file, after all checks that need only its header and its size.
shard_file checked_file(const fs::path& path, std::int64_t vocabulary) {
  const file_stamp stamp = stamp_of(path);
  input_file input(path);
  const bool wide = has_magic(input, wide_shard_kind);
  const std::int64_t tokens = read_header(input, wide ? wide_shard_kind : shard_kind)[2];
  const std::int64_t token_bytes = wide ? sizeof(std::uint32_t) : sizeof(std::uint16_t);
  input.require(tokens >= 0, "number of tokens", "at least 0", std::to_string(tokens));
  input.require_size(header_bytes + tokens * token_bytes);
  input.require(wide || vocabulary <= 1 << 16, "the vocabulary of a model on tokens of 16 bits",
                "at most 65536", std::to_string(vocabulary));
  return {path, stamp, tokens, token_bytes};
}

/// Calls `use` with a number of the type that the tokens of a shard have.
template <class Use>
auto with_token_type(std::int64_t token_bytes, Use use) {
  return token_bytes == sizeof(std::uint16_t) ? use(std::uint16_t{}) : use(std::uint32_t{});
}

template <class Token>
Token token_at(std::string_view bytes, std::size_t index) {
  Token token;
  std::memcpy(&token, bytes.data() + index * sizeof token, sizeof token);
  return token;
}

/// Requires that all tokens are below the vocabulary; the first one has this place in its shard.
template <class Token>
void require_tokens(const input_file& input, std::string_view bytes, std::int64_t place,
                    std::int64_t vocabulary) {
  const std::size_t count = bytes.size() / sizeof(Token);
  Token most = 0;  // in a loop without exits, for vector instructions
  for (std::size_t i = 0; i < count; ++i) most = std::max(most, token_at<Token>(bytes, i));
  for (std::size_t i = 0; most >= vocabulary && i < count; ++i) {
    const Token token = token_at<Token>(bytes, i);
    input.require(token < vocabulary, "token " + std::to_string(place + std::int64_t(i)),
                  "below the vocabulary of " + std::to_string(vocabulary), std::to_string(token));
  }
}

/// Reads the whole file, checks all its tokens and completes its record.
void read_whole(const shard_file& file, std::int64_t vocabulary, file_record& record) {
  record.stamp = settled(file.stamp);
  const input_file input(file.path);
  record.bytes = input.size();
  std::int64_t place = -header_bytes / file.token_bytes;
  record.checksum = *checksum_of(input, [&](std::string_view piece) {
    const auto count = static_cast<std::int64_t>(piece.size()) / file.token_bytes;
    if (place < 0) piece.remove_prefix(std::min<std::size_t>(header_bytes, piece.size()));
    with_token_type(file.token_bytes, [&](auto token) {
      require_tokens<decltype(token)>(input, piece, std::max<std::int64_t>(place, 0), vocabulary);
    });
    place += count;
    return true;
  });
}

std::vector<std::int64_t> token_counts(const std::vector<shard_file>& files) {
  std::vector<std::int64_t> counts;
  for (const shard_file& file : files) counts.push_back(file.tokens);
  return counts;
}

class shard_source : public token_source {
 public:
  shard_source(std::vector<shard_file> shards, data_record records, std::int64_t vocabulary)
      : token_source(token_counts(shards), std::move(records)),
        shards_(std::move(shards)),
        vocabulary_(vocabulary) {}

  std::string name(std::size_t shard) const override { return shards_[shard].path.string(); }

  void read(std::int32_t* to, std::size_t shard, std::int64_t offset,
            std::int64_t count) const override {
    const input_file& input = opened(shard);
    const std::int64_t token_bytes = shards_[shard].token_bytes;
    buffer_.resize(static_cast<std::size_t>(count * token_bytes));
    input.read(buffer_.data(), buffer_.size(), header_bytes + offset * token_bytes);
    with_token_type(token_bytes, [&](auto token) {
      using type = decltype(token);
      require_tokens<type>(input, buffer_, offset, vocabulary_);
      for (std::int64_t i = 0; i < count; ++i) {
        to[i] = static_cast<std::int32_t>(token_at<type>(buffer_, static_cast<std::size_t>(i)));
      }
    });
  }

 private:
  /// The file of a shard. It holds what it held when it was checked, or this is an input_error.
  const input_file& opened(std::size_t shard) const {
    const file_stamp stamp = stamp_of(shards_[shard].path);
    const bool same = stamp == shards_[shard].stamp;
    if (!open_ || open_shard_ != shard || !same) {
      open_.reset();
      open_.emplace(shards_[shard].path);
      open_shard_ = shard;
    }
    if (!same) {
      require_same_contents(shard);
      shards_[shard].stamp = stamp;
    }
    return *open_;
  }

  void require_same_contents(std::size_t shard) const {
    const auto require = [&](const std::string& what, const std::string& wanted,
                             const std::string& seen) {
      open_->require(wanted == seen, what, wanted + " as when the run began", seen);
    };
    require("size in bytes", std::to_string(shards_[shard].stamp.bytes),
            std::to_string(open_->size()));
    if (files().empty()) return;
    require("checksum", files()[shard].checksum,
            *checksum_of(*open_, [](std::string_view) { return true; }));
  }

  mutable std::vector<shard_file> shards_;
  std::int64_t vocabulary_;
  // One file is open at a time: a data set may have more shards than a process may open files.
  mutable std::optional<input_file> open_;
  mutable std::size_t open_shard_ = 0;
  mutable std::string buffer_;
};

/// For each shard what is known of it; where that is nothing, or it changed, without a checksum.
data_record known_records(const std::vector<shard_file>& shards, const data_record& known) {
  data_record records;
  const fs::path folder = shards.front().path.parent_path();
  for (const shard_file& shard : shards) {
    std::string name = printable(shard.path.lexically_relative(folder).string());
    const file_record* const unchanged = find_unchanged(known, name, shard.stamp);
    records.push_back(unchanged ? *unchanged : file_record{std::move(name), 0, "", std::nullopt});
  }
  return records;
}

std::int64_t bytes_to_read(const std::vector<shard_file>& shards, const data_record& records) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (records[i].checksum.empty()) bytes += shards[i].stamp.bytes;
  }
  return bytes;
}

}  // namespace

std::unique_ptr<token_source> make_shard_source(const std::vector<fs::path>& paths,
                                                std::int64_t vocabulary, shard_reading reading,
                                                const data_record& known,
                                                const std::function<void(std::int64_t)>& announce) {
  std::vector<shard_file> shards;
  for (const fs::path& path : paths) shards.push_back(checked_file(path, vocabulary));
  data_record records;
  if (reading == shard_reading::whole) {
    records = known_records(shards, known);
    announce(bytes_to_read(shards, records));
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (records[i].checksum.empty()) read_whole(shards[i], vocabulary, records[i]);
    }
  }
  return std::make_unique<shard_source>(std::move(shards), std::move(records), vocabulary);
}

}  // namespace gpt2_trainer
