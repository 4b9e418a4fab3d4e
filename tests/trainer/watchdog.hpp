/// @file
/// For tests of what could wait for ever.
#pragma once

#include <unistd.h>

namespace llmc_test {

/// Ends the whole process after some seconds, unless it is gone before: a test that hangs fails.
class watchdog {
 public:
  watchdog() { ::alarm(20); }
  watchdog(const watchdog&) = delete;
  ~watchdog() { ::alarm(0); }
};

}  // namespace llmc_test
