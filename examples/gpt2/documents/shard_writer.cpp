#include "gpt2/documents/shard_writer.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "gpt2/files/file.hpp"
#include "gpt2/files/file_header.hpp"
#include "gpt2/files/writable.hpp"
#include "gpt2/input_error.hpp"
#include "gpt2/model/random.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* training_name = "_train_";
constexpr const char* validation_name = "_val_";
constexpr std::string_view extension = ".bin";
constexpr std::size_t digits = 6;
constexpr std::int64_t most_shards = 1'000'000;

fs::path shard_path(const fs::path& prefix, const char* purpose, std::int64_t number) {
  const std::string text = std::to_string(number);
  return prefix.string() + purpose + std::string(digits - text.size(), '0') + text +
         std::string(extension);
}

/// Whether the rest of a name is that of a shard: _train_000001.bin.
bool is_shard_ending(std::string_view text) {
  for (const std::string_view purpose : {training_name, validation_name}) {
    if (text.substr(0, purpose.size()) != purpose) continue;
    const std::string_view number = text.substr(purpose.size());
    return number.size() == digits + extension.size() && number.substr(digits) == extension &&
           number.find_first_not_of("0123456789") == digits;
  }
  return false;
}

bool is_wide(token_width width, std::int64_t vocabulary) {
  constexpr std::int64_t most = 1 << 16;
  if (width == token_width::narrow && vocabulary > most) {
    throw input_error("tokens of 16 bits must be of a vocabulary of at most " +
                      std::to_string(most) + ", got " + std::to_string(vocabulary));
  }
  return width == token_width::wide || vocabulary > most;
}

fs::path folder_of(const fs::path& prefix) {
  return prefix.has_parent_path() ? prefix.parent_path() : ".";
}

/// The folders that have to be made for this one, the innermost first.
std::vector<fs::path> missing_folders(fs::path folder) {
  std::vector<fs::path> missing;
  for (; !folder.empty() && !fs::exists(folder); folder = folder.parent_path()) {
    missing.push_back(folder);
  }
  return missing;
}

}  // namespace

/// Writes the shards of one purpose.
class shard_writer::output {
 public:
  output(const shard_options& options, bool wide, const char* purpose, std::int64_t first)
      : options_(options), wide_(wide), purpose_(purpose), first_(first) {}

  void begin_document() { ++written_.documents; }

  void add(const std::int32_t* tokens, std::size_t count) {
    while (count > 0) {
      if (written_.tokens == static_cast<std::int64_t>(files_.size()) * options_.shard_tokens) {
        end_shard();
        begin_shard();
      }
      const std::int64_t room = options_.shard_tokens - in_shard_;
      const std::size_t now = std::min(count, static_cast<std::size_t>(room));
      append(tokens, now);
      in_shard_ += static_cast<std::int64_t>(now);
      written_.tokens += static_cast<std::int64_t>(now);
      tokens += now;
      count -= now;
    }
  }

  void finish() { end_shard(); }
  void commit() {
    for (output_file& file : files_) file.commit();
  }

  const written_shards& written() const { return written_; }

 private:
  const file_kind& kind() const { return wide_ ? wide_shard_kind : shard_kind; }

  void begin_shard() {
    const auto number = first_ + static_cast<std::int64_t>(files_.size());
    if (number >= most_shards) {
      throw input_error("there must be at most " + std::to_string(most_shards) +
                        " shards, got more (--shard-tokens)");
    }
    const fs::path path = shard_path(options_.prefix, purpose_, number);
    fs::create_directories(folder_of(path));
    files_.emplace_back(path);
    written_.paths.push_back(path);
    in_shard_ = 0;
    const file_header header = make_header(kind(), {0});
    files_.back().write(header.data(), sizeof header);
  }

  void end_shard() {
    if (files_.empty()) return;
    flush();
    const file_header header = make_header(kind(), {in_shard_});
    files_.back().rewrite(header.data(), sizeof header, 0);
    files_.back().finish();
  }

  void append(const std::int32_t* tokens, std::size_t count) {
    constexpr std::size_t flushed_bytes = 1 << 20;
    if (wide_) {
      append_as<std::uint32_t>(tokens, count);
    } else {
      append_as<std::uint16_t>(tokens, count);
    }
    if (buffer_.size() >= flushed_bytes) flush();
  }

  template <class Token>
  void append_as(const std::int32_t* tokens, std::size_t count) {
    const std::size_t before = buffer_.size();
    buffer_.resize(before + count * sizeof(Token));
    for (std::size_t i = 0; i < count; ++i) {
      const auto token = static_cast<Token>(tokens[i]);
      std::memcpy(buffer_.data() + before + i * sizeof token, &token, sizeof token);
    }
  }

  void flush() {
    files_.back().write(buffer_.data(), buffer_.size());
    buffer_.clear();
  }

  const shard_options& options_;
  bool wide_;
  const char* purpose_;
  std::int64_t first_;
  std::deque<output_file> files_;
  std::int64_t in_shard_ = 0;
  std::string buffer_;
  written_shards written_;
};

std::vector<fs::path> shards_of(const fs::path& prefix) {
  std::vector<fs::path> found;
  const std::string name = prefix.filename().string();
  std::error_code none;  // where there is no folder there are no shards
  for (const auto& entry : fs::directory_iterator(folder_of(prefix), none)) {
    const std::string file = entry.path().filename().string();
    if (file.compare(0, name.size(), name) == 0 &&
        is_shard_ending(std::string_view(file).substr(name.size()))) {
      found.push_back(prefix.parent_path() / file);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

shard_writer::shard_writer(shard_options options, std::int64_t vocabulary)
    : options_(std::move(options)), replaced_(shards_of(options_.prefix)) {
  const bool wide = is_wide(options_.width, vocabulary);
  if (!options_.prefix.has_filename()) {
    throw input_error("--out must end with a name, with which those of the shards begin, got " +
                      options_.prefix.string());
  }
  if (!replaced_.empty() && options_.existing == existing_shards::refuse) {
    throw input_error(
        replaced_.front().string() + ": no shard of this name is wanted, but there " +
        (replaced_.size() == 1 ? "is this one" : "are " + std::to_string(replaced_.size())) +
        " (--existing replace)");
  }
  require_writable(folder_of(options_.prefix), "--out");
  new_folders_ = missing_folders(folder_of(options_.prefix));
  training_ = std::make_unique<output>(options_, wide, training_name, 1);
  validation_ = std::make_unique<output>(options_, wide, validation_name, 0);
}

shard_writer::~shard_writer() {
  training_.reset();  // with the shards that were not committed
  validation_.reset();
  std::error_code not_empty;
  for (const fs::path& folder : new_folders_) fs::remove(folder, not_empty);
}

void shard_writer::begin_document() {
  const bool validates = documents_ > 0 && random_sequence(options_.seed, documents_).uniform() <
                                               options_.val_fraction;
  ++documents_;
  current_ = validates ? validation_.get() : training_.get();
  current_->begin_document();
}

void shard_writer::add(const std::int32_t* tokens, std::size_t count) {
  current_->add(tokens, count);
}

void shard_writer::commit() {
  training_->finish();
  validation_->finish();
  training_->commit();
  validation_->commit();
  for (const fs::path& path : replaced_) {
    const auto is_new = [&](const output& part) {
      const std::vector<fs::path>& paths = part.written().paths;
      return std::find(paths.begin(), paths.end(), path) != paths.end();
    };
    if (!is_new(*training_) && !is_new(*validation_)) fs::remove(path);
  }
}

const written_shards& shard_writer::training() const {
  return training_->written();
}

const written_shards& shard_writer::validation() const {
  return validation_->written();
}

}  // namespace gpt2_trainer
