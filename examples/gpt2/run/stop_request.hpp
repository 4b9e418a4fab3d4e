/// @file
/// How signals ask a program to stop in good order.
#pragma once

#include <string>

namespace gpt2_trainer {

/// From `listen` on, SIGINT, SIGTERM, SIGHUP and SIGPIPE end nothing at first: they make the
/// request, and the program stops when it has saved its work. Signals that were ignored stay
/// ignored, as after `nohup`.
///
/// SIGINT and SIGTERM are answered on standard error. The second one is told what still goes on,
/// the third one ends the program at once. SIGPIPE and SIGHUP may come often and do not count.
class stop_request {
 public:
  /// For the answers: the program's name, and what it does before it ends.
  stop_request(const std::string& program, const std::string& doing);
  stop_request(const stop_request&) = delete;
  stop_request& operator=(const stop_request&) = delete;

  /// Before this, signals end the program as usual.
  void listen() const;

  bool is_made() const { return signal() != 0; }
  /// The first signal that came; 0: none.
  int signal() const;
};

}  // namespace gpt2_trainer
