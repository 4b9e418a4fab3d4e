/// @file
/// The gradient of a bias as column sums in two stages.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/column_sum.cuh>
#include <llmc/device/memory/pack.cuh>
#include <llmc/types.hpp>

LLMC_NAMESPACE_BEGIN
namespace device {

/// The term of one row in a bias gradient, for column_sum.
struct bias_gradient {
  const float* dout;
  std::int64_t columns;

  template <int Width>
  __device__ void operator()(std::int64_t row, std::int64_t c, pack<Width> (&values)[1]) const {
    values[0] = load<Width>(dout + row * columns + c);
  }
};

}  // namespace device

namespace detail {

/// dbias (+)= sums over the rows of dout (rows, OC)
template <int BlockSize>
void sum_bias_gradient(const char* function, float* dbias, void* workspace, const float* dout,
                       row_shape shape, accumulation mode, cudaStream_t stream) {
  column_sum<1, BlockSize>(function, {{dbias}}, workspace, shape,
                           is_16_byte_accessible(shape.channels, dout),
                           device::bias_gradient{dout, shape.channels}, mode, stream);
}

}  // namespace detail
LLMC_NAMESPACE_END
