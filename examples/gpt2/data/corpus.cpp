#include "gpt2/data/corpus.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "gpt2/data/embedded_text.hpp"
#include "gpt2/data/text.hpp"
#include "gpt2/files/checkpoint.hpp"
#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* embedded_name = "llmc's own text";

/// The text with at most eight spaces in a row. A small model that sees nothing but spaces, as
/// between a line of code and a far continuation sign, goes on with spaces without end.
std::string without_gaps(std::string_view text) {
  constexpr std::size_t most = 8;
  std::string result;
  std::size_t spaces = 0;
  for (const char byte : text) {
    spaces = byte == ' ' ? spaces + 1 : 0;
    if (spaces <= most) result += byte;
  }
  return result;
}

bool has_checkpoints(const fs::path& folder) {
  try {
    return !steps_in(folder).empty();
  } catch (const fs::filesystem_error&) {
    return false;  // it is not readable
  }
}

/// The regular files below a folder; all else that is not hidden is counted.
class folder_walk {
 public:
  folder_walk(const fs::path& folder, pass_over_counts& passed_over) : passed_over_(passed_over) {
    const std::error_code error = enter(folder);
    if (error) {
      throw input_error(folder.string() + ": cannot read the folder: " + error.message());
    }
    std::sort(files_.begin(), files_.end());
  }

  std::vector<fs::path> files() && { return std::move(files_); }

 private:
  std::error_code enter(const fs::path& folder) {
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      if (it->path().filename().native().front() != '.') take(*it);
    }
    return error;
  }

  void take(const fs::directory_entry& entry) {
    std::error_code error;
    const fs::file_status status = entry.status(error);
    if (error || !fs::exists(status)) {
      passed_over_.add(pass_over::not_readable);
    } else if (fs::is_regular_file(status)) {
      files_.push_back(entry.path());
    } else if (!fs::is_directory(status)) {
      passed_over_.add(pass_over::no_file);
    } else if (entry.is_symlink(error)) {
      passed_over_.add(pass_over::folder_link);
    } else if (has_checkpoints(entry.path())) {
      passed_over_.add(pass_over::run_folder);
    } else if (enter(entry.path())) {
      passed_over_.add(pass_over::not_readable);
    }
  }

  pass_over_counts& passed_over_;
  std::vector<fs::path> files_;
};

/// Collects text, at most so many bytes with the separators.
class text_reader {
 public:
  explicit text_reader(std::int64_t most_bytes) : most_bytes_(most_bytes) {}

  void read_folder(const fs::path& folder, bool only) {
    const std::int64_t before = corpus_.documents;
    for (const fs::path& path : files_below(folder, corpus_.passed_over)) {
      const fs::path name = only ? path.lexically_relative(folder) : path;
      const std::optional<pass_over> reason = try_file(path, printable(name.string()));
      if (reason) corpus_.passed_over.add(*reason);
    }
    if (corpus_.documents > before) return;
    const std::string passed_over = corpus_.passed_over.text();
    throw input_error(folder.string() + ": a folder with UTF-8 text files is wanted, but " +
                      (passed_over.empty() ? "there is none that is not hidden"
                                           : "all was passed over: " + passed_over) +
                      " (token shards are named by a pattern, such as '*.bin')");
  }

  void read_file(const fs::path& path) {
    const input_file input(path);
    const std::size_t begin = corpus_.text.size() + 1;
    if (input.size() >= most_bytes_ - size()) reject_size(path, input.size());
    corpus_.text.reserve(begin + static_cast<std::size_t>(input.size()));
    if (append(input, printable(path.filename().string()))) return;
    const std::size_t valid = valid_text_prefix(std::string_view(corpus_.text).substr(begin));
    input.fail("UTF-8 text or llm.c's token shards are wanted, but byte " + std::to_string(valid) +
               " is neither");
  }

  text_corpus finish() { return std::move(corpus_); }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(corpus_.text.size()); }

  /// Why the file is passed over, if it is.
  std::optional<pass_over> try_file(const fs::path& path, std::string name) {
    const std::size_t before = corpus_.text.size();
    pass_over reason = pass_over::not_text;
    try {
      const input_file input(path);
      if (input.size() >= most_bytes_) return pass_over::too_large;
      if (append(input, std::move(name))) return std::nullopt;
    } catch (const input_error&) {
      reason = pass_over::not_readable;
    }
    if (size() > most_bytes_) reject_size(path, size());
    corpus_.text.resize(before);
    return reason;
  }

  /// Appends a document. Returns whether it is UTF-8 text and has room; if not, reading ended
  /// there.
  bool append(const input_file& input, std::string name) {
    std::string& text = corpus_.text;
    text += document_separator;
    std::size_t valid = text.size();
    const std::optional<std::string> sum = checksum_of(input, [&](std::string_view piece) {
      text += piece;
      valid += valid_text_prefix(std::string_view(text).substr(valid));
      const bool mendable = text.size() - valid < longest_character;  // by the next piece
      return mendable && size() <= most_bytes_;
    });
    if (!sum || valid < text.size()) return false;
    corpus_.files.push_back({std::move(name), input.size(), *sum, std::nullopt});
    ++corpus_.documents;
    return true;
  }

  [[noreturn]] void reject_size(const fs::path& path, std::int64_t bytes) const {
    throw input_error(path.string() + ": text is read into memory, where at most " +
                      std::to_string(most_bytes_) + " bytes (half of it) are for it, got " +
                      std::to_string(bytes) + " (token shards may be larger)");
  }

  std::int64_t most_bytes_;
  text_corpus corpus_;
};

/// A container's limit, of version 2 or 1 of Linux's control groups; `none` where there is none.
std::int64_t container_memory(std::int64_t none) {
  std::int64_t least = none;
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::int64_t bytes = 0;
    if (std::ifstream(path) >> bytes) least = std::min(least, bytes);  // "max" is no number
  }
  return least;
}

}  // namespace

std::string pass_over_counts::text() const {
  std::string text;
  for (const pass_over reason : pass_overs) {
    if ((*this)[reason] == 0) continue;
    text += (text.empty() ? "" : ", ") + std::to_string((*this)[reason]) + " " + to_string(reason);
  }
  return text;
}

std::vector<fs::path> files_below(const fs::path& folder, pass_over_counts& passed_over) {
  return folder_walk(folder, passed_over).files();
}

std::int64_t largest_text() {
  const std::int64_t machine = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  return container_memory(machine) / 2;
}

text_corpus read_text(const std::vector<fs::path>& paths, std::int64_t most_bytes) {
  text_reader reader(most_bytes);
  for (const fs::path& path : paths) {
    std::error_code error;  // what is no folder is a file, or cannot be opened as one
    if (fs::is_directory(path, error)) {
      reader.read_folder(path, paths.size() == 1);
    } else {
      reader.read_file(path);
    }
  }
  return reader.finish();
}

text_corpus embedded_text() {
  text_corpus corpus;
  for (const std::string_view document : embedded_documents()) {
    corpus.text += document_separator;
    corpus.text += without_gaps(document);
    ++corpus.documents;
  }
  checksum sum;
  sum.add(corpus.text.data(), corpus.text.size());
  corpus.files.push_back(
      {embedded_name, static_cast<std::int64_t>(corpus.text.size()), sum.text(), std::nullopt});
  return corpus;
}

}  // namespace gpt2_trainer
