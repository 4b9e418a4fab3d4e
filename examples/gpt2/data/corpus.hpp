/// @file
/// Text to train on, from files, folders or the program itself. It lies in memory.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gpt2/data/data_record.hpp"

namespace gpt2_trainer {

/// Why something in a folder is not read.
enum class pass_over {
  not_text,      ///< not UTF-8, or with byte 0
  too_large,     ///< by itself larger than all text may be
  not_readable,  ///< no right to, or a link that leads nowhere or to itself
  no_file,       ///< a FIFO, a socket, a device
  folder_link,   ///< a link to a folder, which could lead in circles
  run_folder     ///< with checkpoints: what a run writes is not what it learns from
};

constexpr const char* to_string(pass_over reason) {
  switch (reason) {
    case pass_over::not_text: return "not UTF-8 text";
    case pass_over::too_large: return "too large";
    case pass_over::not_readable: return "not readable";
    case pass_over::no_file: return "not a regular file";
    case pass_over::folder_link: return "link to a folder";
    case pass_over::run_folder: return "folder with checkpoints";
  }
  return "unknown";
}

inline constexpr std::array pass_overs{pass_over::not_text,     pass_over::too_large,
                                       pass_over::not_readable, pass_over::no_file,
                                       pass_over::folder_link,  pass_over::run_folder};

/// How many were passed over for each reason.
class pass_over_counts {
 public:
  void add(pass_over reason) { ++counts_[static_cast<std::size_t>(reason)]; }
  std::int64_t operator[](pass_over reason) const {
    return counts_[static_cast<std::size_t>(reason)];
  }
  /// "3 not UTF-8 text, 1 too large"; empty if nothing was passed over.
  std::string text() const;

 private:
  std::array<std::int64_t, pass_overs.size()> counts_{};
};

/// The regular files below a folder, in the order of their names' bytes. What is no file is
/// counted, and so is a folder with checkpoints; names that begin with a dot are not looked at. An
/// input_error if the folder cannot be read.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               pass_over_counts& passed_over);

/// For each document, in order: a separator, then the document.
struct text_corpus {
  std::string text;
  data_record files;
  std::int64_t documents = 0;
  pass_over_counts passed_over;
};

/// Half of the memory of this machine or of the container that the program runs in.
std::int64_t largest_text();

/// Reads files, and folders with all below them. A file that is named must be UTF-8 text of at most
/// `most_bytes`, as all together must be. What in a folder cannot be used is passed over, and so
/// are names that begin with a dot. The order within a folder is that of the names' bytes.
text_corpus read_text(const std::vector<std::filesystem::path>& paths,
                      std::int64_t most_bytes = largest_text());

/// llmc's own documentation and headers, which the program carries with it, without wide gaps.
text_corpus embedded_text();

}  // namespace gpt2_trainer
