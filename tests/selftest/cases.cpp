/// @file
/// Test cases that fail, pass and are skipped on purpose; ctest looks at the exit status of each
/// mix. See tests/support/main.cpp.
#include "../support/catch.hpp"
#include "../support/skip.hpp"

namespace {

void fail_checks(int count) {
  for (int i = 0; i < count; ++i) CHECK(i < 0);
}

}  // namespace

TEST_CASE("1 failing check", "[fail_1]") {
  fail_checks(1);
}
TEST_CASE("4 failing checks", "[fail_4]") {
  fail_checks(4);
}
TEST_CASE("77 failing checks", "[fail_77]") {
  fail_checks(77);
}
TEST_CASE("256 failing checks", "[fail_256]") {
  fail_checks(256);
}
TEST_CASE("an exception", "[exception]") {
  throw 1;
}
TEST_CASE("a passing check", "[pass]") {
  CHECK(true);
}
TEST_CASE("a skipped case", "[skip]") {
  LLMC_SKIP("on purpose");
}
TEST_CASE("a case skipped after a failed check", "[fail_then_skip]") {
  CHECK(false);
  LLMC_SKIP("too late");
}
