/// @file
/// Skipping a test case by name. Catch2 2 has no SKIP, so our own main counts: see main.cpp.
#pragma once

#include <string>

namespace llmc_test {

/// Reports the running test case as skipped, with the reason. The test case must return after it.
void report_skip(const std::string& reason);

}  // namespace llmc_test

/// Leaves the test case, which is then reported as skipped and not as passed.
#define LLMC_SKIP(reason)             \
  do {                                \
    ::llmc_test::report_skip(reason); \
    return;                           \
  } while (false)
