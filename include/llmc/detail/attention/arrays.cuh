/// @file
/// The arrays of attention, see attention_forward and attention_backward, and their checks.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

struct attention_forward_arrays {
  float* out;
  float* lse;
  const float* qkv;

  void require(const char* function) const {
    checks::require_pointer(function, "out", out);
    checks::require_pointer(function, "lse", lse);
    checks::require_pointer(function, "qkv", qkv);
  }
};

struct attention_backward_arrays {
  float* dqkv;
  const float* dout;
  const float* qkv;
  const float* out;
  const float* lse;
  float* delta = nullptr;      ///< (B, NH, T), of the workspace
  float* dqkv_sums = nullptr;  ///< (B, blocks of rows, 3, NH, HS), of the workspace: the sums of
                               ///< dqkv over the rows of each block; null: not wanted

  void require(const char* function) const {
    checks::require_pointer(function, "dqkv", dqkv);
    checks::require_pointer(function, "dout", dout);
    checks::require_pointer(function, "qkv", qkv);
    checks::require_pointer(function, "out", out);
    checks::require_pointer(function, "lse", lse);
  }
};

}  // namespace detail
LLMC_NAMESPACE_END
