/// @file
/// Arguments that a launcher must refuse before it touches a GPU.
#pragma once

#include <string>

#include <llmc/error.hpp>

#include "catch.hpp"

namespace llmc_test {

/// Fails the test unless `call` throws llmc::invalid_argument with exactly this text.
template <class Call>
void check_refused(const std::string& text, Call call) {
  std::string thrown = "nothing was thrown";
  try {
    call();
  } catch (const llmc::invalid_argument& e) {
    thrown = e.what();
  }
  CHECK(thrown == text);
}

}  // namespace llmc_test
