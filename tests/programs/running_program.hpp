/// @file
/// Running a program as a user does.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace llmc_test {

struct program_result {
  int status;  ///< as a shell counts: 128 + the signal's number if one ended it
  std::string output;
  std::string errors;
};

/// Runs it to its end; one that hangs is ended after two minutes, by SIGALRM.
program_result run(const std::filesystem::path& program, const std::vector<std::string>& arguments);

}  // namespace llmc_test
