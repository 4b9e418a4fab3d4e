#include "gpt2/run/program.hpp"

#include <cstdio>

#include <llmc/version.hpp>

namespace gpt2_trainer {

std::string version_of(const std::string& program) {
  return program + " of llmc " + std::to_string(LLMC_VERSION_MAJOR) + "." +
         std::to_string(LLMC_VERSION_MINOR) + "." + std::to_string(LLMC_VERSION_PATCH);
}

int status_after_printing(const std::string& program, int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fprintf(stderr, "%s: not all that was printed could be written to standard output\n",
               program.c_str());
  return status == 0 ? 1 : status;
}

}  // namespace gpt2_trainer
