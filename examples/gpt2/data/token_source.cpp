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
  text_source(std::string text, std::string name, data_record files)
      : token_source({static_cast<std::int64_t>(text.size())}, std::move(files)),
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
      : token_source({tokens}, {}),
        vocabulary_(static_cast<std::uint64_t>(vocabulary)),
        seed_(seed) {}

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

bool has_shard_magic(const fs::path& path) {
  const input_file input(path);
  return has_magic(input, shard_kind) || has_magic(input, wide_shard_kind);
}

}  // namespace

std::int64_t token_source::tokens() const {
  return std::accumulate(shards_.begin(), shards_.end(), std::int64_t{0});
}

std::unique_ptr<token_source> make_text_source(std::string text, std::string name,
                                               data_record files) {
  return std::make_unique<text_source>(std::move(text), std::move(name), std::move(files));
}

std::unique_ptr<token_source> make_random_source(std::int64_t tokens, std::int64_t vocabulary,
                                                 std::uint64_t seed) {
  return std::make_unique<random_source>(tokens, vocabulary, seed);
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
    std::error_code error;  // what is no folder is a file, or cannot be opened as one
    return !fs::is_directory(path, error) && (path.extension() == ".bin" || has_shard_magic(path));
  });
}

}  // namespace gpt2_trainer
