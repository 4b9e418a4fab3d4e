/// @file
/// What the kernels of products need of a device. Plain C++.
#pragma once

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include <llmc/detail/checks.hpp>
#include <llmc/detail/matmul/context/cublaslt.hpp>
#include <llmc/detail/matmul/context/device_memory.hpp>
#include <llmc/detail/matmul/context/tensor_map.hpp>
#include <llmc/detail/namespace.hpp>
#include <llmc/types.hpp>

LLMC_TYPES_BEGIN

namespace products {

/// A cuBLASLt handle, scratch, and descriptors for bulk copies, on one device and for one stream at
/// a time. They know no kernel, so that files that are compiled differently can share them.
class resources {
 public:
  /// Of the current device.
  explicit resources(const char* function) {
    check_cuda(function, "cudaGetDevice", cudaGetDevice(&device_));
    cublasLtHandle_t library = nullptr;
    cublaslt::check(function, "cublasLtCreate", cublasLtCreate(&library));
    library_.reset(library);
    multiprocessors_ = attribute(function, cudaDevAttrMultiProcessorCount);
    compute_capability_ = 10 * attribute(function, cudaDevAttrComputeCapabilityMajor) +
                          attribute(function, cudaDevAttrComputeCapabilityMinor);
    workspace_ = allocate_zeroed(function, "allocating the workspace", workspace_bytes);
    flags_ = allocate_zeroed(function, "allocating flags", flag_count * sizeof(std::int32_t));
  }

  int device() const noexcept { return device_; }
  int multiprocessors() const noexcept { return multiprocessors_; }
  /// 10 * major + minor.
  int compute_capability() const noexcept { return compute_capability_; }
  cublasLtHandle_t library() const noexcept { return library_.get(); }

  /// Scratch of a product while it runs.
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
  void* workspace() const noexcept { return workspace_.get(); }

  /// Device memory that is zero whenever no product runs: a product that sets flags clears them.
  static constexpr int flag_count = 1024;
  std::int32_t* flags() const noexcept { return static_cast<std::int32_t*>(flags_.get()); }

  /// The descriptor of a matrix for bulk copies.
  CUtensorMap tensor_map(const char* function, const tensor_box& box) {
    return tensor_maps_.find(function, box);
  }

  void require_current_device(const char* function) const {
    int current = -1;
    check_cuda(function, "cudaGetDevice", cudaGetDevice(&current));
    if (current != device_) {
      checks::reject(function, "the context must be of the current device, " +
                                   std::to_string(current) + ", got one of device " +
                                   std::to_string(device_));
    }
  }

 private:
  int attribute(const char* function, cudaDeviceAttr which) const {
    int value = 0;
    check_cuda(function, "cudaDeviceGetAttribute", cudaDeviceGetAttribute(&value, which, device_));
    return value;
  }

  int device_ = -1;
  int multiprocessors_ = 0;
  int compute_capability_ = 0;
  cublaslt::library_owner library_;
  device_memory workspace_;
  device_memory flags_;
  tensor_map_cache tensor_maps_;
};

}  // namespace products

LLMC_TYPES_END
