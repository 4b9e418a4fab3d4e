/// @file
/// What all programs have in common at their beginning and end.
#pragma once

#include <functional>
#include <string>

namespace gpt2_trainer {

/// "gpt2_train of llmc 1.2.3".
std::string version_of(const std::string& program);

/// A program's exit status where something failed.
struct exit_statuses {
  int failed = 1;
  int not_usable = 2;  ///< the user's input or files were no use, and nothing was written
};

/// A whole main: shares the processors (threads.hpp), runs the body and returns its status. An
/// exception becomes one line on stderr and a status, and so does output that could not be printed.
int run_program(const std::string& program, char* const* argv, const std::function<int()>& body,
                exit_statuses statuses = {});

}  // namespace gpt2_trainer
