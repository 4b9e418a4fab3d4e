/// @file
/// Running gpt2_train as a user does.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "temporary_folder.hpp"

namespace llmc_test {

struct program_result {
  int status;  ///< as a shell counts: 128 + the signal's number if one ended it
  std::string output;
  std::string errors;
};

/// A gpt2_train that runs, on the CPU.
class running_train {
 public:
  /// It starts in that folder. What it prints goes to this descriptor; -1: it is collected.
  running_train(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                int output = -1);
  running_train(const running_train&) = delete;
  /// Ends it at once, if nobody waited for it.
  ~running_train();

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
