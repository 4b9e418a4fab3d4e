#include "running_program.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "../trainer/temporary_folder.hpp"

namespace llmc_test {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// In the child: what goes to this descriptor, into a file.
void redirect(int descriptor, const fs::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(125);
}

}  // namespace

program_result run(const fs::path& program, const std::vector<std::string>& arguments) {
  const temporary_folder said;
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), program.string());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t process = ::fork();
  if (process == 0) {
    ::alarm(120);
    redirect(STDOUT_FILENO, said / "output");
    redirect(STDERR_FILENO, said / "errors");
    ::execv(program.c_str(), argv.data());
    ::_exit(126);
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          contents(said / "output"), contents(said / "errors")};
}

}  // namespace llmc_test
