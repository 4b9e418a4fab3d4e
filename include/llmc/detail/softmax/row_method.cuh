/// @file
/// What the teaching kernels of softmax, cross-entropy and the classifier differ in.
#pragma once

#include <llmc/detail/cuda_only.hpp>

#include <cstdint>

#include <llmc/detail/launch.cuh>
#include <llmc/detail/namespace.hpp>
#include <llmc/device/row/row_softmax_workers.cuh>

LLMC_NAMESPACE_BEGIN
namespace detail {

/// Who shares a row, and how they find its statistics.
template <class Workers, device::softmax_sum Sum>
struct row_method {
  using workers = Workers;
  static constexpr device::softmax_sum sum = Sum;
};

/// Launches a kernel whose `Workers` take a row at a time. Its block size is not a template
/// parameter, so one kernel serves them all.
template <class Workers, class... Parameters, class... Arguments>
void launch_over_rows(const char* function, std::int64_t rows, int block_size, cudaStream_t stream,
                      void (*kernel)(Parameters...), Arguments... arguments) {
  const std::int64_t blocks = ceil_div(rows, Workers::rows_per_block(block_size));
  launch({function, blocks, block_size, 0, stream}, kernel, arguments...);
}

}  // namespace detail
LLMC_NAMESPACE_END
