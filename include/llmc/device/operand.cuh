/// @file
/// An operand of a matrix product in memory, for kernels that are written once for every layout.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

using products::layout;
using products::operand;

struct product_extents {
  std::int64_t rows;     ///< the outers of the first operand
  std::int64_t columns;  ///< the outers of the second
  std::int64_t inner;    ///< k
};

/// Where (outer, k) lies.
template <layout Order>
__device__ __forceinline__ const float* element(const operand& m, std::int64_t outer,
                                                std::int64_t k) {
  return m.data + (Order == layout::inner_first ? outer * m.stride + k : k * m.stride + outer);
}

}  // namespace device
LLMC_NAMESPACE_END
