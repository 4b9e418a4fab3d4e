/// @file
/// Descriptors of matrices for bulk copies (sm_90 on), made once and kept. Plain C++.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include <llmc/detail/namespace.hpp>
#include <llmc/error.hpp>

LLMC_TYPES_BEGIN

namespace products {

/// The numbers of a matrix, and what bulk copies make of them.
enum class box_element {
  fp32,
  tf32,  ///< floats, which are rounded on the way
  fp16
};

/// A matrix as it lies in memory, cut in boxes for bulk copies to shared memory. Boxes are swizzled
/// by 128 bytes, and what lies outside the matrix is zero.
struct tensor_box {
  const void* data;
  std::uint64_t columns;
  std::uint64_t rows;
  std::uint64_t row_bytes;  ///< from one row to the next
  std::uint32_t box_columns;
  std::uint32_t box_rows;
  box_element element;
};

/// Keeps the maps made so far. It is emptied when it holds many: a program that multiplies ever new
/// buffers should not grow.
class tensor_map_cache {
 public:
  CUtensorMap find(const char* function, const tensor_box& box) {
    const key k = key_of(box);
    const auto found = maps_.find(k);
    if (found != maps_.end()) return found->second;
    constexpr std::size_t most_maps = 4096;
    if (maps_.size() >= most_maps) maps_.clear();
    return maps_.emplace(k, encode(function, box)).first->second;
  }

 private:
  using key = std::array<std::uint64_t, 7>;

  static key key_of(const tensor_box& b) {
    return {static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(b.data)),
            b.columns,
            b.rows,
            b.row_bytes,
            b.box_columns,
            b.box_rows,
            static_cast<std::uint64_t>(b.element)};
  }

  /// The driver's function, without linking the driver.
  decltype(&cuTensorMapEncodeTiled) encoder(const char* function) {
    if (encoder_ != nullptr) return encoder_;
    void* address = nullptr;
    cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
    const cudaError_t code = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address,
                                                              12000, cudaEnableDefault, &result);
#else
    const cudaError_t code =
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &address, cudaEnableDefault, &result);
#endif
    if (code != cudaSuccess || result != cudaDriverEntryPointSuccess) {
      throw cuda_error(std::string(function) + ": the driver has no cuTensorMapEncodeTiled",
                       static_cast<int>(code));
    }
    encoder_ = reinterpret_cast<decltype(encoder_)>(address);
    return encoder_;
  }

  static CUtensorMapDataType type_of(box_element element) {
    switch (element) {
      case box_element::fp32: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
      case box_element::tf32: return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
      case box_element::fp16: break;
    }
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  }

  CUtensorMap encode(const char* function, const tensor_box& b) {
    CUtensorMap map{};
    constexpr cuuint32_t rank = 2;
    const cuuint64_t extents[rank] = {b.columns, b.rows};
    const cuuint64_t strides[rank - 1] = {b.row_bytes};
    const cuuint32_t box[rank] = {b.box_columns, b.box_rows};
    const cuuint32_t steps[rank] = {1, 1};
    const CUresult code = encoder(function)(
        &map, type_of(b.element), rank, const_cast<void*>(b.data), extents, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (code != CUDA_SUCCESS) {
      throw cuda_error(std::string(function) + ": cuTensorMapEncodeTiled failed with CUresult " +
                           std::to_string(static_cast<int>(code)),
                       static_cast<int>(code));
    }
    return map;
  }

  std::map<key, CUtensorMap> maps_;
  decltype(&cuTensorMapEncodeTiled) encoder_ = nullptr;
};

}  // namespace products

LLMC_TYPES_END
