/// @file
/// What all programs have in common at their beginning and end.
#pragma once

#include <string>

namespace gpt2_trainer {

/// "gpt2_train of llmc 1.2.3".
std::string version_of(const std::string& program);

/// To be called first. Where standard input, output or error is closed, the next file that is
/// opened, say a checkpoint, would take its number and get what is printed. From here on writing
/// there fails.
void occupy_closed_streams();

/// The status to leave with: `status`, but 1 instead of 0 if not all that was printed could be
/// written; then stderr says so.
int status_after_printing(const std::string& program, int status);

}  // namespace gpt2_trainer
