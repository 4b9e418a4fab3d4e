#include "gpt2/run/program.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include <llmc/version.hpp>

namespace gpt2_trainer {

std::string version_of(const std::string& program) {
  return program + " of llmc " + std::to_string(LLMC_VERSION_MAJOR) + "." +
         std::to_string(LLMC_VERSION_MINOR) + "." + std::to_string(LLMC_VERSION_PATCH);
}

void occupy_closed_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // It gets the least free number, which is this one.
    ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

int status_after_printing(const std::string& program, int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fprintf(stderr, "%s: not all that was printed could be written to standard output\n",
               program.c_str());
  return status == 0 ? 1 : status;
}

}  // namespace gpt2_trainer
