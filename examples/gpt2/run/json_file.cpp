#include "gpt2/run/json_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "gpt2/input_error.hpp"

namespace gpt2_trainer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool is_of(const json& value, json_schema schema) {
  const auto found = value.is_object() ? value.find("schema") : value.end();
  return found != value.end() && *found == schema.name;
}

bool is_empty_or_none(const std::string& path) {
  return !fs::exists(path) || (fs::is_regular_file(path) && fs::file_size(path) == 0);
}

std::string first_line(const std::string& path) {
  constexpr std::size_t longest = 4096;
  std::ifstream file(path, std::ios::binary);
  std::string line(longest, '\0');
  file.getline(line.data(), longest);
  line.resize(std::strlen(line.c_str()));
  return line;
}

bool ends_in_line(int descriptor, const std::string& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
    return false;
  }
  std::ifstream file(path, std::ios::binary);
  file.seekg(-1, std::ios::end);
  return file.get() != '\n';
}

std::string line_of(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

/// Writes all of it. Returns how much was written.
std::size_t write_all(int descriptor, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::write(descriptor, text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) break;
    done += static_cast<std::size_t>(put);
  }
  return done;
}

[[noreturn]] void refuse(const std::string& path, json_schema schema) {
  throw input_error(path + ": a new or an empty file is wanted, or one of the schema " +
                    schema.name + ", got a file of another kind");
}

}  // namespace

json json_of_schema(json_schema schema) {
  return {{"schema", schema.name}, {"version", schema.version}};
}

void require_own_json(const std::string& path, json_schema schema) {
  if (is_empty_or_none(path)) return;
  if (!fs::is_regular_file(path)) throw input_error(path + ": a regular file is wanted");
  std::ifstream file(path, std::ios::binary);
  if (!is_of(json::parse(file, nullptr, false), schema)) refuse(path, schema);
}

void require_own_lines(const std::string& path, json_schema schema) {
  if (is_empty_or_none(path)) return;
  if (fs::is_fifo(path) || fs::is_character_file(path)) return;
  if (!fs::is_regular_file(path) || !is_of(json::parse(first_line(path), nullptr, false), schema)) {
    refuse(path, schema);
  }
}

json_lines::json_lines(std::string path, json_schema schema, json first) : path_(std::move(path)) {
  require_own_lines(path_, schema);
  fs::create_directories(fs::path(path_).parent_path());
  // To open a pipe that nobody reads must fail, not wait.
  constexpr int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  descriptor_ = ::open(path_.c_str(), flags, 0644);
  if (descriptor_ < 0) {
    throw input_error(path_ + ": cannot write: " +
                      (errno == ENXIO ? "no program reads it" : std::strerror(errno)));
  }
  ::fcntl(descriptor_, F_SETFL, O_APPEND);  // but lines may wait for a slow reader
  first.update(json_of_schema(schema));
  before_ = (ends_in_line(descriptor_, path_) ? "\n" : "") + line_of(first);
}

json_lines::~json_lines() {
  ::close(descriptor_);
}

std::string json_lines::add(const json& value) {
  const std::string text = before_ + line_of(value);
  const std::size_t done = write_all(descriptor_, text);
  const int error = errno;
  if (done == text.size()) {
    before_.clear();
    return "";
  }
  const off_t end = ::lseek(descriptor_, 0, SEEK_END);
  const bool is_taken_back =
      done == 0 || ::ftruncate(descriptor_, end - static_cast<off_t>(done)) == 0;
  if (!is_taken_back && before_.substr(0, 1) != "\n") before_ = "\n" + before_;
  return std::strerror(error);
}

std::string json_lines::finish() {
  // What cannot be kept has no disk to be on: pipes and devices.
  return ::fsync(descriptor_) == 0 || errno == EINVAL || errno == EROFS ? "" : std::strerror(errno);
}

}  // namespace gpt2_trainer
