/// @file
/// Running gpt2_train as a user does.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "../support/running_program.hpp"
#include "temporary_folder.hpp"

namespace llmc_test {

/// A gpt2_train that runs, on the CPU.
class running_train : public running_program {
 public:
  running_train(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                int output = -1);
};

/// Runs gpt2_train in that folder, on the CPU.
program_result run_train(const std::filesystem::path& folder,
                         const std::vector<std::string>& arguments);

/// Lets it run until its log has this many steps, then sends it SIGINT.
program_result interrupt_train(const std::filesystem::path& folder,
                               const std::vector<std::string>& arguments,
                               const std::filesystem::path& log, int steps);

/// The lines of a log that have this key, in order.
std::vector<nlohmann::json> log_lines(const std::filesystem::path& log, const std::string& key);

/// A model and run that take a moment: 1 layer of 8 channels, batches of 2 x 8 bytes of llmc's own
/// text.
std::vector<std::string> tiny_run(const std::vector<std::string>& more = {});

}  // namespace llmc_test
