#include "gpt2/run/program.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>

#include <llmc/version.hpp>

#include "gpt2/input_error.hpp"
#include "gpt2/machine/threads.hpp"

namespace gpt2_trainer {
namespace {

/// Where standard input, output or error is closed, the next file that is opened, say a checkpoint,
/// would take its number and get what is printed. From here on writing there fails.
void occupy_closed_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // It gets the least free number, which is this one.
    ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

int complain(const std::string& program, const std::string& what, int status) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), what.c_str());
  return status;
}

/// 1 instead of 0 if not all that was printed could be written.
int status_after_printing(const std::string& program, int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  return complain(program, "not all that was printed could be written to standard output",
                  status == 0 ? 1 : status);
}

}  // namespace

std::string version_of(const std::string& program) {
  return program + " of llmc " + std::to_string(LLMC_VERSION_MAJOR) + "." +
         std::to_string(LLMC_VERSION_MINOR) + "." + std::to_string(LLMC_VERSION_PATCH);
}

int run_program(const std::string& program, char* const* argv, const std::function<int()>& body,
                exit_statuses statuses) {
  occupy_closed_streams();
  share_processors(argv);
  try {
    return status_after_printing(program, body());
  } catch (const input_error& error) {
    return complain(program, error.what(), statuses.not_usable);
  } catch (const std::filesystem::filesystem_error& error) {
    // All paths are the user's.
    const std::string path = error.path1().string();
    return complain(program, path.empty() ? error.what() : path + ": " + error.code().message(),
                    statuses.not_usable);
  } catch (const std::bad_alloc&) {
    return complain(program, "not enough memory", statuses.failed);
  } catch (const std::exception& error) {
    return complain(program, error.what(), statuses.failed);
  }
}

}  // namespace gpt2_trainer
