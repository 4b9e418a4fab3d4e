/// @file
/// How the two consumer groups of a block share its tensor cores.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/mbarrier.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The consumers take turns at the tensor cores: while one's products run, the other adds and
/// splits. Without that they fall into step and the tensor cores wait for both.
class tensor_core_turns {
 public:
  __device__ __forceinline__ explicit tensor_core_turns(int group) : group_(group) {
    if (group == 1) pass();
  }
  __device__ __forceinline__ void wait() const { device::synchronise_some(3 + group_, 256); }
  __device__ __forceinline__ void pass() const { device::arrive_at_some(4 - group_, 256); }

 private:
  int group_;
};

}  // namespace detail
LLMC_NAMESPACE_END
