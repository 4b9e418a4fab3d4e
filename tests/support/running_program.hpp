/// @file
/// Running a program as a user does.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "../trainer/temporary_folder.hpp"

namespace llmc_test {

struct program_result {
  int status;  ///< as a shell counts: 128 + the signal's number if one ended it
  std::string output;
  std::string errors;
};

/// A program that runs.
class running_program {
 public:
  /// It starts in that folder. What it prints goes to this descriptor; -1: it is collected.
  running_program(const char* program, const std::filesystem::path& folder,
                  std::vector<std::string> arguments, int output = -1);
  running_program(const running_program&) = delete;
  /// Ends it at once, if nobody waited for it.
  ~running_program();

  void send(int signal) const;
  /// What it has said so far.
  std::string output() const;
  std::string errors() const;
  program_result wait();

 private:
  temporary_folder said_;  // outside its own folder
  pid_t process_ = -1;
};

/// Waits until it is so, for a minute at most; returns whether it is.
bool wait_until(const std::function<bool()>& so);

/// All bytes of a file.
std::string file_bytes(const std::filesystem::path& path);

}  // namespace llmc_test
