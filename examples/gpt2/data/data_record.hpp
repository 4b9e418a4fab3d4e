/// @file
/// What a run's data were, so that a resumed run notices where they are others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpt2/files/file.hpp"

namespace gpt2_trainer {

/// What says without reading a file that it is as it was. `changed` is the time that no program can
/// set back (ctime), so a tool that restores the time of modification does not hide a change.
struct file_stamp {
  std::int64_t bytes = 0;
  std::int64_t modified = 0;  ///< nanoseconds since 1970, as `changed`
  std::int64_t changed = 0;
  std::uint64_t inode = 0;

  friend bool operator==(const file_stamp& a, const file_stamp& b) {
    return a.bytes == b.bytes && a.modified == b.modified && a.changed == b.changed &&
           a.inode == b.inode;
  }
  friend bool operator!=(const file_stamp& a, const file_stamp& b) { return !(a == b); }
};

/// An input_error if there is no such file.
file_stamp stamp_of(const std::filesystem::path& path);

/// The stamp, if it is old enough to stand for the contents that are read from now on: a file that
/// changed a moment ago could change again within the same tick of its file system's clock.
std::optional<file_stamp> settled(const file_stamp& stamp);

/// A file all of whose bytes were read.
struct file_record {
  std::string name;  ///< below the folder or pattern that was named; for messages, so printable
  std::int64_t bytes = 0;
  std::string checksum;
  std::optional<file_stamp> stamp;  ///< where it may stand for the checksum
};

/// The files in the order in which their tokens follow each other.
using data_record = std::vector<file_record>;

/// Reads a file from its first byte to its last and returns its checksum. `use` sees each piece, a
/// multiple of 8 bytes except for the last; where it returns false reading ends without a checksum.
std::optional<std::string> checksum_of(const input_file& input,
                                       const std::function<bool(std::string_view)>& use);

/// The entry of the file of that name if it still has its stamp; null if it must be read.
const file_record* find_unchanged(const data_record& known, const std::string& name,
                                  const file_stamp& stamp);

/// Requires the same bytes in the same files' order; names and folders may have changed. Else an
/// input_error that begins with `data` says which files changed, are new or are missing.
void require_same(const std::string& data, const data_record& wanted, const data_record& seen);

/// One line of JSON, and back. An input_error if the text is no record.
std::string data_record_to_json(const data_record& record);
data_record data_record_from_json(const std::string& text);

}  // namespace gpt2_trainer
