#include "gpt2/run/stop_request.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>

namespace gpt2_trainer {
namespace {

/// A line in memory that outlives everything: a signal may come while the program ends.
class answer {
 public:
  void operator=(const std::string& text) {
    size_ = std::min(text.size(), text_.size());
    std::copy_n(text.begin(), size_, text_.begin());
  }
  void give() const {
    const ssize_t unused = ::write(STDERR_FILENO, text_.data(), size_);
    static_cast<void>(unused);  // nobody may be there to read it
  }

 private:
  std::array<char, 256> text_{};
  std::size_t size_ = 0;
};

// What the handler uses. It may run on any thread.
std::atomic<int> first_signal{0};
std::atomic<int> demands{0};  // SIGINT and SIGTERM so far
answer first_answer;
answer second_answer;
static_assert(std::atomic<int>::is_always_lock_free);

void handle(int signal) {
  const int error = errno;  // what was interrupted may be about to read it
  int none = 0;
  first_signal.compare_exchange_strong(none, signal);
  if (signal == SIGINT || signal == SIGTERM) {
    const int demand = ++demands;
    if (demand == 1) first_answer.give();
    if (demand == 2) second_answer.give();
    if (demand > 2) {
      ::signal(signal, SIG_DFL);
      ::raise(signal);  // it comes when this handler is left
    }
  }
  errno = error;
}

}  // namespace

stop_request::stop_request(const std::string& program, const std::string& doing) {
  // On a line of its own, since a terminal shows Ctrl-C as ^C.
  first_answer = "\n" + program + ": stopping, " + doing + "\n";
  second_answer = "\n" + program + ": still " + doing + "; once more ends it at once\n";
}

void stop_request::listen() const {
  constexpr std::array signals{SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  struct sigaction ours {};
  ours.sa_handler = handle;
  ours.sa_flags = SA_RESTART;
  for (const int signal : signals) sigaddset(&ours.sa_mask, signal);
  for (const int signal : signals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(signal, &ours, nullptr);
  }
}

int stop_request::signal() const {
  return first_signal;
}

}  // namespace gpt2_trainer
