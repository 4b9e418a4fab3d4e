/// @file
/// The main function of every test program. Its last line counts test cases, "3 passed, 0 failed,
/// 1 skipped", and its exit status is
///
///    0  at least one test case ran and passed, and none failed
///    1  a check failed, whatever the number of failures
///    2  no test case matched, or the arguments were wrong
///   77  every test case that matched was skipped
///
/// Catch2's own status is the number of failed checks, of which 77 would look like a skip to ctest,
/// and Catch2 2 counts a skipped case as passed.
#define CATCH_CONFIG_RUNNER
#include "catch.hpp"

#include <cstdio>
#include <string>

#include "skip.hpp"

namespace {

struct case_counts {
  int passed = 0;
  int failed = 0;
  int skipped = 0;
};

case_counts counts;
bool current_is_skipped = false;

std::string& current_name() {
  static std::string name;
  return name;
}

#if LLMC_CATCH_VERSION == 3
using listener_base = Catch::EventListenerBase;
#else
using listener_base = Catch::TestEventListenerBase;
#endif

class case_counter : public listener_base {
 public:
  using listener_base::listener_base;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    current_name() = info.name;
    current_is_skipped = false;
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    if (stats.totals.assertions.failed > 0) {
      ++counts.failed;
    } else if (current_is_skipped) {
      ++counts.skipped;
    } else {
      ++counts.passed;
    }
  }
};

bool only_informs(const Catch::ConfigData& config) {
  return config.showHelp || config.listTests || config.listTags || config.listReporters;
}

int exit_status(int catch_status) {
  if (counts.passed + counts.failed + counts.skipped == 0) return 2;
  if (counts.failed > 0 || catch_status != 0) return 1;
  return counts.passed == 0 ? 77 : 0;
}

}  // namespace

CATCH_REGISTER_LISTENER(case_counter)

void llmc_test::report_skip(const std::string& reason) {
  current_is_skipped = true;
  std::printf("SKIPPED: %s (%s)\n", current_name().c_str(), reason.c_str());
  std::fflush(stdout);
}

int main(int argc, char** argv) {
  Catch::Session session;
  if (session.applyCommandLine(argc, argv) != 0) return 2;
  const int catch_status = session.run();
  if (only_informs(session.configData())) return 0;
  std::printf("%d passed, %d failed, %d skipped\n", counts.passed, counts.failed, counts.skipped);
  return exit_status(catch_status);
}
