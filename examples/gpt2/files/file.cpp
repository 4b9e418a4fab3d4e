#include "gpt2/files/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

template <class Error>
[[noreturn]] void fail_to(const std::filesystem::path& path, const char* action) {
  throw Error(path.string() + ": cannot " + action + ": " + std::strerror(errno));
}

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  return path.string() + ".tmp";
}

/// A rename is on the disk only when its folder is.
void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // some file systems do not open folders; nothing more can be done
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

file::file(std::filesystem::path path, int flags)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), flags | O_CLOEXEC, 0644)) {}

file::file(file&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

file& file::operator=(file&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

file::~file() {
  close();
}

void file::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

input_file::input_file(const std::filesystem::path& path) : file(path, O_RDONLY), size_(0) {
  struct stat status {};
  if (descriptor() < 0 || ::fstat(descriptor(), &status) != 0) fail_to<input_error>(path, "open");
  if (!S_ISREG(status.st_mode)) fail("a regular file is wanted");
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
    : file(temporary_name(path), O_WRONLY | O_CREAT | O_TRUNC), final_path_(path) {
  if (descriptor() < 0) fail_to<std::runtime_error>(path, "write");
}

output_file::~output_file() {
  if (descriptor() >= 0) ::unlink(path().c_str());
}

void output_file::write(const void* from, std::size_t bytes) {
  const char* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t put = ::write(descriptor(), at, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_to<std::runtime_error>(final_path_, "write");
    at += put;
    bytes -= static_cast<std::size_t>(put);
  }
}

void output_file::commit() {
  if (::fsync(descriptor()) != 0) fail_to<std::runtime_error>(final_path_, "write");
  if (::rename(path().c_str(), final_path_.c_str()) != 0) {
    fail_to<std::runtime_error>(final_path_, "rename to this name");
  }
  close();
  sync_folder(final_path_.has_parent_path() ? final_path_.parent_path() : ".");
}

std::string read_file(const std::filesystem::path& path) {
  const input_file input(path);
  std::string contents(static_cast<std::size_t>(input.size()), '\0');
  input.read(contents.data(), contents.size(), 0);
  return contents;
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  output_file output(path);
  output.write(text.data(), text.size());
  output.commit();
}

void checksum::add(const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  for (std::size_t done = 0; done < bytes; done += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, at + done, std::min(sizeof word, bytes - done));
    value_ = (value_ ^ word) * 0x9e3779b97f4a7c15;
    value_ ^= value_ >> 32;  // else the high bits of a word would never reach the low ones
  }
}

std::string checksum::text() const {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value_));
  return digits;
}

}  // namespace gpt2_trainer
