/// @file
/// The main function of every test program. Its exit status is
///
///    0  at least one test case ran and passed, and none failed
///    1  a check failed, whatever the number of failures
///    2  no test case matched, or the arguments were wrong
///   77  every test case that matched was skipped
///
/// Catch2's own status is the number of failed checks, of which 77 would look like a skip to ctest.
#define CATCH_CONFIG_RUNNER
#include "catch.hpp"

#include <cstdio>
#include <string>

#include "skip.hpp"

namespace {

int skipped_cases = 0;
int run_cases = 0;

std::string& current_case() {
  static std::string name;
  return name;
}

#if LLMC_CATCH_VERSION == 3
using listener_base = Catch::EventListenerBase;
#else
using listener_base = Catch::TestEventListenerBase;
#endif

/// Counts what ran, and remembers the name for report_skip.
class case_counter : public listener_base {
 public:
  using listener_base::listener_base;
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    ++run_cases;
    current_case() = info.name;
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(case_counter)

void llmc_test::report_skip(const std::string& reason) {
  ++skipped_cases;
  std::printf("SKIPPED: %s (%s)\n", current_case().c_str(), reason.c_str());
  std::fflush(stdout);
}

int main(int argc, char** argv) {
  Catch::Session session;
  if (session.applyCommandLine(argc, argv) != 0) return 2;
  const int failures = session.run();
  if (failures != 0 && run_cases > 0) return 1;
  if (run_cases == 0) {
    std::printf("no test case matched\n");
    return 2;
  }
  return skipped_cases == run_cases ? 77 : 0;
}
