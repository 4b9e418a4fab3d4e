#include "program.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <thread>
#include <utility>

namespace llmc_test {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// In the child: output into a file.
void redirect(int descriptor, const fs::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(125);
}

std::vector<std::string> on_cpu(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--backend", "cpu"});
  return arguments;
}

}  // namespace

running_train::running_train(const fs::path& folder, const std::vector<std::string>& arguments,
                             int output) {
  std::vector<std::string> words = on_cpu(arguments);
  std::vector<char*> argv{const_cast<char*>(GPT2_TRAIN)};
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  process_ = ::fork();
  if (process_ != 0) return;
  ::alarm(120);  // a program that hangs ends by a signal, and fails its test
  if (output < 0) {
    redirect(STDOUT_FILENO, said_ / "output");
  } else {
    ::dup2(output, STDOUT_FILENO);
  }
  redirect(STDERR_FILENO, said_ / "errors");
  if (::chdir(folder.c_str()) == 0) ::execv(GPT2_TRAIN, argv.data());
  ::_exit(126);
}

running_train::~running_train() {
  if (process_ < 0) return;
  send(SIGKILL);
  wait();
}

void running_train::send(int signal) const {
  ::kill(process_, signal);
}

std::string running_train::output() const {
  return contents(said_ / "output");
}

std::string running_train::errors() const {
  return contents(said_ / "errors");
}

program_result running_train::wait() {
  int status = 0;
  ::waitpid(std::exchange(process_, -1), &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), output(), errors()};
}

bool wait_until(const std::function<bool()>& so) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!so()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

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
  std::istringstream text(contents(log));
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
