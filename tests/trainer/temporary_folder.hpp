/// @file
/// Folders and files for tests of what reads and writes them.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace llmc_test {

/// An empty folder that goes, with all in it, at the end of the object.
class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "llmc-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  temporary_folder(const temporary_folder&) = delete;
  ~temporary_folder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::filesystem::path write_text(const std::filesystem::path& path,
                                        const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

inline std::filesystem::path make_fifo(const std::filesystem::path& path) {
  if (::mkfifo(path.c_str(), 0600) != 0) throw std::runtime_error("cannot make " + path.string());
  return path;
}

template <class Number>
std::filesystem::path write_numbers(const std::filesystem::path& path,
                                    const std::vector<Number>& numbers, bool append = false) {
  std::ofstream file(path, append ? std::ios::binary | std::ios::app : std::ios::binary);
  file.write(reinterpret_cast<const char*>(numbers.data()),
             static_cast<std::streamsize>(numbers.size() * sizeof(Number)));
  return path;
}

/// A token shard of llm.c's; its header says `count` tokens, or as many as there are.
inline std::filesystem::path write_shard(const std::filesystem::path& path,
                                         const std::vector<std::uint16_t>& tokens,
                                         std::int32_t magic = 20240520, std::int32_t version = 1,
                                         std::int32_t count = -1) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = count < 0 ? static_cast<std::int32_t>(tokens.size()) : count;
  write_numbers(path, header);
  return write_numbers(path, tokens, true);
}

/// 0, 1, 2, ...
inline std::vector<std::uint16_t> counting_tokens(int count) {
  std::vector<std::uint16_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<std::uint16_t>(i));
  return tokens;
}

/// What a call throws; empty if it throws nothing.
template <class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace llmc_test
