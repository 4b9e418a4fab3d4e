/// @file
/// The gradient of a bias as column sums in two stages.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/column_sum.cuh>
#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/memory/pack.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// The term of one row in a bias gradient, for column_sum.
struct bias_gradient_terms {
  const float* dout;
  std::int64_t columns;

  template <int Width>
  __device__ void operator()(std::int64_t row, std::int64_t c,
                             device::pack<Width> (&values)[1]) const {
    values[0] = device::load<Width>(dout + row * columns + c);
  }
};

/// dbias (+)= sums over the rows of dout (rows, OC)
template <int BlockSize>
void sum_bias_gradient(const char* function, float* dbias, void* scratch, const float* dout,
                       row_shape shape, accumulation mode, cudaStream_t stream) {
  column_sum<1, BlockSize>(function, {{dbias}}, scratch, shape,
                           is_16_byte_accessible(shape.channels, dout),
                           bias_gradient_terms{dout, shape.channels}, mode, stream);
}

}  // namespace detail
LLMC_NAMESPACE_END
