// foreground PROGRAM ARGUMENTS...: runs a program as the job of the terminal's foreground, the way
// a shell does, and ends with its status.
//
// Ctrl-C goes to all processes of the foreground. CMake ends at once then, and the shell's prompt
// comes back while a training is still writing its checkpoint. Here only the program gets it.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace {

std::atomic<pid_t> program{0};

void pass_on(int signal) {
  if (program > 0) ::kill(program, signal);
}

[[noreturn]] void become(char** command) {
  ::execvp(command[0], command);
  std::fprintf(stderr, "%s: %s\n", command[0], std::strerror(errno));
  ::_exit(127);
}

/// Until the program stops or ends, and whatever signals come meanwhile.
int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, WUNTRACED) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  char** const command = argv + 1;
  const pid_t us = ::getpgrp();
  const int terminal = ::open("/dev/tty", O_RDWR | O_CLOEXEC);
  if (terminal < 0 || ::tcgetpgrp(terminal) != us) become(command);  // there is nothing to give

  ::signal(SIGTTOU, SIG_IGN);  // it would stop us where we take the terminal back
  const pid_t process = ::fork();
  if (process < 0) become(command);
  if (process == 0) {
    ::setpgid(0, 0);
    ::tcsetpgrp(terminal, ::getpid());
    ::signal(SIGTTOU, SIG_DFL);
    become(command);
  }
  ::setpgid(process, process);  // whoever comes first
  program = process;
  constexpr std::array passed_on{SIGINT, SIGTERM, SIGHUP};
  for (const int signal : passed_on) ::signal(signal, pass_on);

  for (;;) {
    if (::tcgetpgrp(terminal) == us) ::tcsetpgrp(terminal, process);
    ::kill(-process, SIGCONT);
    const int status = wait_for(process);
    if (::tcgetpgrp(terminal) == process) ::tcsetpgrp(terminal, us);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    if (WIFSIGNALED(status)) return 128 + WTERMSIG(status);
    ::kill(0, SIGTSTP);  // Ctrl-Z: those that wait for the program stop with it
  }
}
