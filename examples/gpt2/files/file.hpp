/// @file
/// Reading parts of files of any size, and writing files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gpt2/model/number_type.hpp"

namespace gpt2_trainer {

/// A file descriptor, open until the end of the object, and the name that messages give it.
class file {
 public:
  file(file&& other) noexcept;
  file& operator=(file&& other) noexcept;
  ~file();

  const std::filesystem::path& path() const { return path_; }

 protected:
  /// Takes the descriptor over; -1: none.
  file(std::filesystem::path path, int descriptor);
  int descriptor() const { return descriptor_; }
  /// Closes the descriptor that it has, for this one.
  void take(int descriptor);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Reads a regular file and checks what it holds; anything else, such as a FIFO, is refused without
/// waiting for it. Whatever goes wrong is an input_error: it begins with the file's name and says
/// what was wanted and what was seen.
class input_file : public file {
 public:
  explicit input_file(const std::filesystem::path& path);

  std::int64_t size() const { return size_; }
  /// Reads exactly that many bytes.
  void read(void* to, std::size_t bytes, std::int64_t offset) const;
  /// Reads exactly that many numbers of the type, as floats.
  void read_floats(float* to, std::int64_t count, number_type type, std::int64_t offset) const;

  /// Where `next` reads: after what it read before.
  std::int64_t offset() const { return offset_; }
  void next(void* to, std::size_t bytes) {
    read(to, bytes, offset_);
    offset_ += static_cast<std::int64_t>(bytes);
  }
  template <class Number>
  std::vector<Number> next(std::int64_t count) {
    std::vector<Number> values(static_cast<std::size_t>(count));
    next(values.data(), values.size() * sizeof(Number));
    return values;
  }

  [[noreturn]] void fail(const std::string& wanted_and_seen) const;
  /// Unless `so`, throws "WHAT must be WANTED, got SEEN".
  void require(bool so, const std::string& what, const std::string& wanted,
               const std::string& seen) const;
  void require_equal(const std::string& what, std::int64_t wanted, std::int64_t seen) const;
  void require_between(const std::string& what, std::int64_t least, std::int64_t most,
                       std::int64_t seen) const;
  /// Requires that the file has what its header says, and nothing after it.
  void require_size(std::int64_t bytes) const;

 private:
  std::int64_t size_;
  std::int64_t offset_ = 0;
};

/// A file under a temporary name in the same folder. `commit` gives it its own name, when all its
/// bytes are on the disk; without commit it is removed, and a file that had the name before stays.
/// Whatever goes wrong is a std::runtime_error that begins with the file's name.
class output_file : public file {
 public:
  /// The name must be free or that of a regular file, which commit replaces.
  explicit output_file(const std::filesystem::path& path);
  ~output_file();

  void write(const void* from, std::size_t bytes);
  /// Writes again what stands there, such as a header that says how much came after it.
  void rewrite(const void* from, std::size_t bytes, std::int64_t offset);
  /// Waits until all that was written is on the disk.
  void sync();
  /// Ends writing. What is on the disk waits for commit without a descriptor, of which a process
  /// has only so many.
  void finish();
  void commit();

 private:
  std::filesystem::path temporary_;  ///< empty: it has its own name
};

/// The name of the file that output_file writes under this temporary name; empty if it is none.
std::string final_name(const std::string& temporary);

/// Waits until the names in the folder, new and changed ones, are on the disk.
void sync_folder(const std::filesystem::path& folder);

/// The whole file.
std::string read_file(const std::filesystem::path& path);

/// Writes the whole file, after the folders that it lies in.
void write_file(const std::filesystem::path& path, const std::string& text);

/// A checksum of 64-bit words (the last one padded with zeros), fast enough for gigabytes. It finds
/// accidents, not attacks.
class checksum {
 public:
  void add(const void* data, std::size_t bytes);
  std::uint64_t value() const { return value_; }
  std::string text() const;

 private:
  std::uint64_t value_ = 0x6c6c6d632d737461;
};

/// 16 digits.
std::string hexadecimal(std::uint64_t value);

}  // namespace gpt2_trainer
