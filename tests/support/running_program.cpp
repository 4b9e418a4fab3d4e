#include "running_program.hpp"

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

/// In the child: output into a file.
void redirect(int descriptor, const fs::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(125);
}

}  // namespace

running_program::running_program(const char* program, const fs::path& folder,
                                 std::vector<std::string> arguments, int output) {
  std::vector<char*> argv{const_cast<char*>(program)};
  for (std::string& word : arguments) argv.push_back(word.data());
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
  if (::chdir(folder.c_str()) == 0) ::execv(program, argv.data());
  ::_exit(126);
}

running_program::~running_program() {
  if (process_ < 0) return;
  send(SIGKILL);
  wait();
}

void running_program::send(int signal) const {
  ::kill(process_, signal);
}

std::string running_program::output() const {
  return file_bytes(said_ / "output");
}

std::string running_program::errors() const {
  return file_bytes(said_ / "errors");
}

program_result running_program::wait() {
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

std::string file_bytes(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace llmc_test
