#include "gpt2/files/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <stdexcept>
#include <utility>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

template <class Error>
[[noreturn]] void fail_to(const std::filesystem::path& path, const char* action) {
  throw Error(path.string() + ": cannot " + action + ": " + std::strerror(errno));
}

/// What a file is, as messages call it.
const char* kind_of(const struct stat& status) {
  switch (status.st_mode & S_IFMT) {
    case S_IFREG: return "a regular file";
    case S_IFDIR: return "a folder";
    case S_IFIFO: return "a FIFO";
    case S_IFSOCK: return "a socket";
    case S_IFCHR:
    case S_IFBLK: return "a device";
    default: return "something else";
  }
}

void require_regular(const std::filesystem::path& path, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return;
  throw input_error(path.string() + ": a regular file is wanted, got " + kind_of(status));
}

/// Opening a FIFO waits for its other end, and opening a device may do anything, so the name is
/// looked at first. O_NONBLOCK is for a name that comes to mean something else in between.
int open_to_read(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail_to<input_error>(path, "open");
  require_regular(path, status);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (descriptor < 0) fail_to<input_error>(path, "open");
  return descriptor;
}

/// Where a name leads: output replaces what a link means, not the link. Only a file is replaced.
std::filesystem::path replaceable(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return path;
  require_regular(path, status);
  return std::filesystem::is_symlink(path) ? std::filesystem::canonical(path) : path;
}

constexpr const char* temporary_mark = ".llmc-";

std::string temporary_name(const std::string& name, const std::string& digits) {
  return name + temporary_mark + digits + ".tmp";
}

/// Eight digits that no other process chooses, on this machine or another one.
std::string random_digits() {
  return hexadecimal(std::random_device()()).substr(8);
}

}  // namespace

file::file(std::filesystem::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

file::file(file&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

file& file::operator=(file&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

file::~file() {
  take(-1);
}

void file::take(int descriptor) {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = descriptor;
}

input_file::input_file(const std::filesystem::path& path)
    : file(path, open_to_read(path)), size_(0) {
  struct stat status {};
  if (::fstat(descriptor(), &status) != 0) fail_to<input_error>(path, "open");
  require_regular(path, status);
  size_ = status.st_size;
}

void input_file::read(void* to, std::size_t bytes, std::int64_t offset) const {
  char* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor(), at, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_to<input_error>(path(), "read");
    if (got == 0) {
      fail(std::to_string(bytes) + " more bytes wanted at " + std::to_string(offset) +
           ", but the file ends there");
    }
    at += got;
    offset += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

void input_file::read_floats(float* to, std::int64_t count, number_type type,
                             std::int64_t offset) const {
  if (type == number_type::f32) {
    read(to, static_cast<std::size_t>(count) * sizeof *to, offset);
    return;
  }
  std::array<std::uint16_t, 1 << 15> part;
  while (count > 0) {
    const auto now = std::min<std::int64_t>(count, part.size());
    const std::int64_t bytes = now * bytes_of(type);
    read(part.data(), static_cast<std::size_t>(bytes), offset);
    widen(part.data(), type, static_cast<std::size_t>(now), to);
    to += now;
    count -= now;
    offset += bytes;
  }
}

void input_file::fail(const std::string& wanted_and_seen) const {
  throw input_error(path().string() + ": " + wanted_and_seen);
}

void input_file::require(bool so, const std::string& what, const std::string& wanted,
                         const std::string& seen) const {
  if (!so) fail(what + " must be " + wanted + ", got " + seen);
}

void input_file::require_equal(const std::string& what, std::int64_t wanted,
                               std::int64_t seen) const {
  require(seen == wanted, what, std::to_string(wanted), std::to_string(seen));
}

void input_file::require_between(const std::string& what, std::int64_t least, std::int64_t most,
                                 std::int64_t seen) const {
  require(seen >= least && seen <= most, what,
          "between " + std::to_string(least) + " and " + std::to_string(most),
          std::to_string(seen));
}

void input_file::require_size(std::int64_t bytes) const {
  if (size_ == bytes) return;
  fail("by its header the file must have " + std::to_string(bytes) + " bytes, got " +
       std::to_string(size_));
}

output_file::output_file(const std::filesystem::path& path)
    : file(replaceable(path), -1),
      temporary_(temporary_name(this->path().string(), random_digits())) {
  take(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (descriptor() < 0) fail_to<std::runtime_error>(path, "write");
}

output_file::~output_file() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void output_file::write(const void* from, std::size_t bytes) {
  const char* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = ::write(descriptor(), at, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_to<std::runtime_error>(path(), "write");
    at += put;
    bytes -= static_cast<std::size_t>(put);
  }
}

void output_file::rewrite(const void* from, std::size_t bytes, std::int64_t offset) {
  const char* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = ::pwrite(descriptor(), at, bytes, offset);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_to<std::runtime_error>(path(), "write");
    at += put;
    offset += put;
    bytes -= static_cast<std::size_t>(put);
  }
}

void output_file::sync() {
  if (::fsync(descriptor()) != 0) fail_to<std::runtime_error>(path(), "write");
}

void output_file::finish() {
  if (descriptor() < 0) return;
  sync();
  take(-1);
}

void output_file::commit() {
  finish();
  if (::rename(temporary_.c_str(), path().c_str()) != 0) {
    fail_to<std::runtime_error>(path(), "rename to this name");
  }
  temporary_.clear();
  sync_folder(path().parent_path());
}

std::string read_file(const std::filesystem::path& path) {
  const input_file input(path);
  std::string contents(static_cast<std::size_t>(input.size()), '\0');
  input.read(contents.data(), contents.size(), 0);
  return contents;
}

std::string final_name(const std::string& temporary) {
  const std::size_t end = temporary.rfind(temporary_mark);
  if (end == std::string::npos) return "";
  const std::string name = temporary.substr(0, end);
  return temporary == temporary_name(name, temporary.substr(end + std::strlen(temporary_mark), 8))
             ? name
             : "";
}

void sync_folder(const std::filesystem::path& folder) {
  const std::filesystem::path name = folder.empty() ? "." : folder;
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // some file systems do not open folders; nothing more can be done
  const bool lost = ::fsync(descriptor) != 0 && (errno == EIO || errno == ENOSPC);
  ::close(descriptor);
  if (lost) throw std::runtime_error(name.string() + ": cannot write the folder to the disk");
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  output_file output(path);
  output.write(text.data(), text.size());
  output.commit();
}

void checksum::add(const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  const auto add_word = [&](std::size_t count) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, count);
    value_ = (value_ ^ word) * 0x9e3779b97f4a7c15;
    value_ ^= value_ >> 32;  // else the high bits of a word would never reach the low ones
    at += count;
  };
  // Whole words apart from the last one: a copy of known size is one instruction.
  for (std::size_t words = bytes / sizeof value_; words > 0; --words) add_word(sizeof value_);
  if (bytes % sizeof value_ != 0) add_word(bytes % sizeof value_);
}

std::string checksum::text() const {
  return hexadecimal(value_);
}

std::string hexadecimal(std::uint64_t value) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value));
  return digits;
}

}  // namespace gpt2_trainer
