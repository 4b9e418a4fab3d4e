#include "program.hpp"

#include <signal.h>

#include <sstream>

namespace llmc_test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> on_cpu(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--backend", "cpu"});
  return arguments;
}

}  // namespace

running_train::running_train(const fs::path& folder, const std::vector<std::string>& arguments,
                             int output)
    : running_program(GPT2_TRAIN, folder, on_cpu(arguments), output) {}

program_result run_train(const fs::path& folder, const std::vector<std::string>& arguments) {
  return running_train(folder, arguments).wait();
}

program_result interrupt_train(const fs::path& folder, const std::vector<std::string>& arguments,
                               const fs::path& log, int steps) {
  running_train running(folder, arguments);
  wait_until([&] { return static_cast<int>(log_lines(log, "loss").size()) >= steps; });
  running.send(SIGINT);
  return running.wait();
}

std::vector<nlohmann::json> log_lines(const fs::path& log, const std::string& key) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(file_bytes(log));
  for (std::string line; std::getline(text, line);) {
    // The last line of a program that still runs may be cut short.
    const nlohmann::json entry = nlohmann::json::parse(line, nullptr, false);
    if (entry.is_object() && entry.contains(key)) lines.push_back(entry);
  }
  return lines;
}

std::vector<std::string> tiny_run(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"--layers",      "1", "--heads", "2", "--channels",      "8",
                                     "--context",     "8", "-b",      "2", "--sample-length", "4",
                                     "--val-batches", "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace llmc_test
