/// @file
/// A clip_state in device memory as an output under test.
#pragma once

#include <cstring>

#include <llmc/types.hpp>

#include "gpu.cuh"

namespace llmc_test {

/// Holds NaN before every run, as every output does.
class clip_output : public output {
  static_assert(sizeof(llmc::clip_state) == 3 * sizeof(float), "clip_state has three fields");

 public:
  clip_output() : output(3) {}

  llmc::clip_state* get() const {
    return reinterpret_cast<llmc::clip_state*>(static_cast<float*>(*this));
  }
  llmc::clip_state state() const {
    llmc::clip_state result;
    std::memcpy(&result, values().data(), sizeof(result));
    return result;
  }
};

}  // namespace llmc_test
