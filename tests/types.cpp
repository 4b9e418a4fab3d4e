#include <llmc/types.hpp>

#include <string>

#include "support/catch.hpp"
#include "support/refusal.hpp"

using namespace llmc_test;
using llmc::precision;

TEST_CASE("every precision has its name and its own code", "[types]") {
  std::string names;
  for (const precision value : llmc::precisions) {
    names += std::string(" ") + to_string(value);
    CHECK(llmc::with_precision(value, [](auto own) { return precision{own}; }) == value);
  }
  CHECK(names == " ieee tf32 tf32x3");
}

TEST_CASE("a precision is exact in FP32 or by split operands", "[types]") {
  CHECK(llmc::facts_of(precision::ieee).is_exact());
  CHECK_FALSE(llmc::facts_of(precision::tf32).is_exact());
  CHECK(llmc::facts_of(precision::tf32x3).is_exact());
  CHECK_FALSE(llmc::facts_of(precision::ieee).on_tensor_cores());
  CHECK(llmc::facts_of(precision::tf32x3).on_tensor_cores());
}

TEST_CASE("a number that is no precision is refused", "[types]") {
  check_refused("llmc: no precision has the number 99",
                [] { llmc::facts_of(static_cast<precision>(99)); });
}
