/// @file
/// What a matmul_context and llmc's own product kernels know of each other. Plain C++, so that one
/// context serves code built for different architectures.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <llmc/detail/matmul/product.hpp>
#include <llmc/detail/namespace.hpp>

LLMC_TYPES_BEGIN

class matmul_context;

namespace products {

/// Who may compute a product: what a layer's variant asks for.
enum class engines {
  any,
  library,  ///< cuBLASLt
  own       ///< llmc's kernels, and cuBLASLt only where there are none
};

/// The same as a type: a program compiles what it asks for, and not all kernels there are.
template <engines Allowed>
using engines_constant = std::integral_constant<engines, Allowed>;

/// A kernel of llmc's own that can do a product.
struct kernel_candidate {
  const char* name = nullptr;  ///< written into plan files, so it stays what it is
  void (*launch)(const char* function, const product& p, matmul_context& context,
                 cudaStream_t stream) = nullptr;
};

/// All who can do a product.
struct candidates {
  std::array<kernel_candidate, 8> kernels;
  int count = 0;
  bool library = true;  ///< cuBLASLt is one of them
  int preferred = -1;   ///< who does it unless the context was tuned; -1: cuBLASLt
};

/// A matrix as it lies in memory, cut in boxes for bulk copies to shared memory. Boxes are swizzled
/// by 128 bytes, and what lies outside the matrix is zero.
struct tensor_box {
  const float* data;
  std::uint64_t columns;
  std::uint64_t rows;
  std::uint64_t row_bytes;  ///< from one row to the next
  std::uint32_t box_columns;
  std::uint32_t box_rows;
  bool rounds_to_tf32;
};

}  // namespace products

LLMC_TYPES_END
