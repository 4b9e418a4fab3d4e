/// @file
/// An operand of a matrix product in memory, for kernels that are written once for every layout.
///
/// A product sums over k; `outer` is a row of the first operand or a column of the second.
/// `InnerFirst` says how the operand lies:
///
///     InnerFirst       (outers, inner): the k of one outer are neighbours
///     not InnerFirst   (inner, outers): the outers of one k are neighbours
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/namespace.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

struct operand {
  const float* data;
  std::int64_t stride;  ///< floats from one line to the next
  std::int64_t outers;  ///< rows of the first operand, columns of the second
};

/// Where (outer, k) lies.
template <bool InnerFirst>
__device__ __forceinline__ const float* element(const operand& m, std::int64_t outer,
                                                std::int64_t k) {
  return m.data + (InnerFirst ? outer * m.stride + k : k * m.stride + outer);
}

}  // namespace device
LLMC_NAMESPACE_END
