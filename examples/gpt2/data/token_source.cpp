#include "gpt2/data/token_source.hpp"

#include <glob.h>

#include <algorithm>
#include <numeric>
#include <system_error>
#include <utility>

#include "gpt2/files/file.hpp"
#include "gpt2/files/file_header.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/model/random.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

class text_source : public token_source {
 public:
  text_source(std::string text, std::string name)
      : token_source({static_cast<std::int64_t>(text.size())}),
        text_(std::move(text)),
        name_(std::move(name)) {}

  std::string name(std::size_t) const override { return name_; }

  void read(std::int32_t* to, std::size_t, std::int64_t offset, std::int64_t count) const override {
    const auto first = text_.begin() + static_cast<std::ptrdiff_t>(offset);
    std::transform(first, first + static_cast<std::ptrdiff_t>(count), to,
                   [](char byte) { return static_cast<unsigned char>(byte); });
  }

 private:
  std::string text_;
  std::string name_;
};

class random_source : public token_source {
 public:
  random_source(std::int64_t tokens, std::int64_t vocabulary, std::uint64_t seed)
      : token_source({tokens}), vocabulary_(static_cast<std::uint64_t>(vocabulary)), seed_(seed) {}

  std::string name(std::size_t) const override { return "random tokens"; }

  void read(std::int32_t* to, std::size_t, std::int64_t offset, std::int64_t count) const override {
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = static_cast<std::int32_t>(random_sequence(seed_, offset + i).below(vocabulary_));
    }
  }

 private:
  std::uint64_t vocabulary_;
  std::uint64_t seed_;
};

using shard_token = std::uint16_t;

/// The number of tokens, after all checks that need only the header and the size.
std::int64_t checked_tokens(const fs::path& path) {
  input_file input(path);
  const std::int64_t tokens = read_header(input, shard_kind)[2];
  input.require(tokens >= 0, "number of tokens", "at least 0", std::to_string(tokens));
  input.require_size(header_bytes + tokens * static_cast<std::int64_t>(sizeof(shard_token)));
  return tokens;
}

std::vector<std::int64_t> checked_tokens(const std::vector<fs::path>& paths) {
  std::vector<std::int64_t> tokens;
  for (const fs::path& path : paths) tokens.push_back(checked_tokens(path));
  return tokens;
}

class shard_source : public token_source {
 public:
  shard_source(const std::vector<fs::path>& paths, std::int64_t vocabulary)
      : token_source(checked_tokens(paths)),
        paths_(paths),
        vocabulary_(vocabulary),
        open_(paths.front()) {
    constexpr std::int64_t checked_at_once = std::int64_t{1} << 27;
    constexpr std::int64_t all_values = std::int64_t{1} << (8 * sizeof(shard_token));
    if (vocabulary < all_values && tokens() < checked_at_once) check_all();
  }

  std::string name(std::size_t shard) const override { return paths_[shard].string(); }

  void read(std::int32_t* to, std::size_t shard, std::int64_t offset,
            std::int64_t count) const override {
    if (open_shard_ != shard) {
      open_ = input_file(paths_[shard]);
      open_shard_ = shard;
    }
    buffer_.resize(static_cast<std::size_t>(count));
    open_.read(buffer_.data(), buffer_.size() * sizeof(shard_token),
               header_bytes + offset * static_cast<std::int64_t>(sizeof(shard_token)));
    for (const shard_token& token : buffer_) {
      if (token >= vocabulary_) reject(token, offset + (&token - buffer_.data()));
      *to++ = token;
    }
  }

 private:
  [[noreturn]] void reject(shard_token token, std::int64_t position) const {
    open_.fail("token " + std::to_string(position) + " must be below the vocabulary of " +
               std::to_string(vocabulary_) + ", got " + std::to_string(token));
  }

  void check_all() const {
    constexpr std::int64_t piece = 1 << 20;
    std::vector<std::int32_t> unused(piece);
    for (std::size_t shard = 0; shard < paths_.size(); ++shard) {
      const std::int64_t count = shards()[shard];
      for (std::int64_t at = 0; at < count; at += piece) {
        read(unused.data(), shard, at, std::min(piece, count - at));
      }
    }
  }

  std::vector<fs::path> paths_;
  std::int64_t vocabulary_;
  // One file is open at a time: a data set may have more shards than a process may open files.
  mutable input_file open_;
  mutable std::size_t open_shard_ = 0;
  mutable std::vector<shard_token> buffer_;
};

bool has_shard_magic(const fs::path& path) {
  const input_file input(path);
  std::int32_t magic = 0;
  if (input.size() < header_bytes) return false;
  input.read(&magic, sizeof magic, 0);
  return magic == shard_kind.magic;
}

}  // namespace

std::int64_t token_source::tokens() const {
  return std::accumulate(shards_.begin(), shards_.end(), std::int64_t{0});
}

std::string token_source::fingerprint() const {
  checksum sum;
  std::vector<std::int32_t> first;
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    first.resize(static_cast<std::size_t>(std::min<std::int64_t>(shards_[shard], 4096)));
    read(first.data(), shard, 0, static_cast<std::int64_t>(first.size()));
    sum.add(&shards_[shard], sizeof shards_[shard]);
    sum.add(first.data(), first.size() * sizeof(std::int32_t));
  }
  return sum.text();
}

std::unique_ptr<token_source> make_text_source(std::string text, std::string name) {
  return std::make_unique<text_source>(std::move(text), std::move(name));
}

std::unique_ptr<token_source> make_random_source(std::int64_t tokens, std::int64_t vocabulary,
                                                 std::uint64_t seed) {
  return std::make_unique<random_source>(tokens, vocabulary, seed);
}

std::unique_ptr<token_source> make_shard_source(const std::vector<fs::path>& paths,
                                                std::int64_t vocabulary) {
  return std::make_unique<shard_source>(paths, vocabulary);
}

std::vector<fs::path> matching_paths(const std::string& pattern) {
  std::error_code not_a_name;  // a pattern may be longer than a name can be
  if (fs::exists(pattern, not_a_name)) return {pattern};
  glob_t found{};
  const int status = ::glob(pattern.c_str(), 0, nullptr, &found);
  std::vector<fs::path> paths(found.gl_pathv, found.gl_pathv + (status == 0 ? found.gl_pathc : 0));
  ::globfree(&found);
  if (paths.empty()) {
    throw input_error(pattern + ": a file, a folder or a pattern that matches files is wanted, " +
                      "but nothing has or matches this name");
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool are_shards(const std::vector<fs::path>& paths) {
  return std::any_of(paths.begin(), paths.end(), [](const fs::path& path) {
    return !fs::is_directory(path) && (path.extension() == ".bin" || has_shard_magic(path));
  });
}

}  // namespace gpt2_trainer
